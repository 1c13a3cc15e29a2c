#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "support/core/file_bytes.hpp"
#include "support/core/temp_folder.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::read_bytes;
using testing::AnyOf;
using testing::HasSubstr;

TEST(ExitCodeFile, HoldsCodeAndReason) {
    const TempFolder folder;
    EXPECT_TRUE(write_exit_code(folder.path(), ExitCode::kRequeue, "stopped by a signal"));
    EXPECT_EQ(read_bytes(RunFolder(folder.path()).exit_code), "75\nstopped by a signal\n");
}

TEST(ExitCodeFile, TheReasonIsOneLine) {
    const TempFolder folder;
    EXPECT_TRUE(write_exit_code(folder.path(), ExitCode::kPeer,
                                "rank 2 is lost\nits last\toperations\n" + std::string(9000, 'x')));
    const std::string text = read_bytes(RunFolder(folder.path()).exit_code);
    EXPECT_THAT(text, HasSubstr("4\nrank 2 is lost its last operations xxx"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    EXPECT_LT(text.size(), 4096U);
}

TEST(ExitCodeFile, TheFirstOfManyWins) {
    const TempFolder folder;
    std::vector<std::thread> threads;
    std::atomic<int> winners{0};
    for (const ExitCode code : {ExitCode::kPeer, ExitCode::kDevice, ExitCode::kInput}) {
        threads.emplace_back([&, code] { winners += write_exit_code(folder.path(), code, "why"); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(winners, 1);
    EXPECT_THAT(read_bytes(RunFolder(folder.path()).exit_code),
                AnyOf("4\nwhy\n", "5\nwhy\n", "3\nwhy\n"));
    EXPECT_FALSE(write_exit_code(folder.path(), ExitCode::kDone, "done"));
}

TEST(ExitCodeFile, ARunBeginsWithoutOne) {
    const TempFolder folder;
    TrainOptions options;
    options.out = folder.path();
    EXPECT_TRUE(write_exit_code(options.out, ExitCode::kPeer, "of the run before"));
    (void)prepare_run_folder(options);
    EXPECT_FALSE(fs::exists(RunFolder(options.out).exit_code));
    EXPECT_TRUE(write_exit_code(options.out, ExitCode::kDone, "done"));
    EXPECT_EQ(read_bytes(RunFolder(options.out).exit_code), "0\ndone\n");
}

TEST(ExitCodeFile, WhatCannotBeWrittenIsNotThrown) {
    const TempFolder folder;
    EXPECT_FALSE(write_exit_code(folder.file("missing"), ExitCode::kDone, "done"));
}

}  // namespace
}  // namespace cohort
