
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cohort/core/output.hpp"
#include "support/core/temp_folder.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// A disk with room for so many bytes; checkpoints of 1000 bytes each take from it.
class RoomTest : public testing::Test {
protected:
    RoomTest() {
        fs::create_directory(checkpoints_);
        for (int step = 1; step <= 3; ++step) {
            put(manifest(step), 200);
            put(fs::path(manifest(step)).replace_extension("shard-0.h5"), 800);
        }
    }

    static void put(const std::string& path, std::size_t bytes) {
        std::ofstream(path) << std::string(bytes, 'x');
    }
    [[nodiscard]] std::string manifest(int step) const {
        return checkpoint_path(checkpoints_, step);
    }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(checkpoints_), {}));
    }
    /// A model that fits when no more than `most` files are left.
    bool write(std::size_t most, bool newest_too, std::uint64_t bytes = 1000) {
        return write_with_room(checkpoints_, bytes, newest_too, [&] {
            ++tries_;
            if (files() > most) {
                fail_errno("model.h5", "cannot be written", ENOSPC);
            }
        });
    }

    TempFolder folder_;
    std::string checkpoints_ = folder_.file("checkpoints");
    int tries_ = 0;
};

TEST_F(RoomTest, NothingIsDeletedWhenThereIsRoom) {
    EXPECT_TRUE(write(6, true));
    EXPECT_EQ(files(), 6U);
}

TEST_F(RoomTest, TheOldestGoFirstAndNoMoreThanNeeded) {
    EXPECT_TRUE(write(4, true));
    EXPECT_FALSE(fs::exists(manifest(1)));
    EXPECT_TRUE(fs::exists(manifest(2)));
    EXPECT_EQ(files(), 4U);
    EXPECT_TRUE(write(2, true));
    EXPECT_TRUE(fs::exists(manifest(3)));
    EXPECT_EQ(tries_, 4);
}

TEST_F(RoomTest, TheNewestGoesOnlyForARunThatIsOver) {
    EXPECT_THROW(write(0, false), DiskFullError);
    EXPECT_TRUE(fs::exists(manifest(3)));
    EXPECT_EQ(files(), 2U);
    EXPECT_FALSE(write(0, true)) << "said to the caller";
    EXPECT_EQ(files(), 0U);
}

TEST_F(RoomTest, NothingIsDeletedForAModelThatWouldNotFitEither) {
    EXPECT_THROW(write(0, true, std::uint64_t{1} << 60U), DiskFullError);
    EXPECT_EQ(files(), 6U);
}

TEST_F(RoomTest, OtherErrorsDeleteNothing) {
    EXPECT_THROW(write_with_room(checkpoints_, 1, true,
                                 [] { fail_errno("model.h5", "cannot be written", EACCES); }),
                 FileError);
    EXPECT_EQ(files(), 6U);
}

TEST(FreeSpaceTest, IsComparedWithWhatTheRunWrites) {
    const TempFolder folder;
    TrainOptions options;
    options.out = folder.file("not/there/yet");
    RunBytes bytes{.model = 1000, .checkpoint = 2000, .checkpoints = 3};
    EXPECT_EQ(bytes.all(), 7000U + (1U << 20U));
    EXPECT_NO_THROW(check_free_space(options, bytes));
    bytes.checkpoint = std::uint64_t{1} << 58U;
    try {
        check_free_space(options, bytes);
        FAIL() << "no error";
    } catch (const DiskFullError& error) {
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("--out " + options.out), HasSubstr("3 checkpoints"),
                          HasSubstr("free"), HasSubstr("--keep-checkpoints")));
        EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    }
}

}  // namespace
}  // namespace cohort
