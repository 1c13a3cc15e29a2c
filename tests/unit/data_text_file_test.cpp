#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <filesystem>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"
#include "support/temp_folder.hpp"

namespace cohort {
namespace {

TEST(TextFile, IsReplacedAsAWholeAndReadBack) {
    const TempFolder folder;
    const std::string path = folder.file("a.txt");
    for (const std::string& text : {std::string("one\ntwo\n"), std::string(), std::string("x")}) {
        replace_text_file(path, text);
        EXPECT_EQ(read_text_file(path), text);
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
        << "a temporary file was left";
}

TEST(TextFile, ErrorsNameThePath) {
    const TempFolder folder;
    const auto message = [&](const auto& action) -> std::string {
        try {
            action();
        } catch (const FileError& error) {
            return error.what();
        }
        return "no error";
    };
    EXPECT_THAT(message([&] { replace_text_file(folder.file("no/a.txt"), "x"); }),
                testing::HasSubstr("no/a.txt"));
    EXPECT_THAT(message([&] { (void)read_text_file(folder.file("b.txt")); }),
                testing::HasSubstr("b.txt"));
}

TEST(TextFile, OnlyRegularFilesOfSensibleLengthAreRead) {
    const TempFolder folder;
    const std::string pipe = folder.file("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_THROW((void)read_text_file(pipe), FileError) << "nobody will ever write to it";
    EXPECT_THROW((void)read_text_file(folder.path()), FileError);
    EXPECT_THROW((void)read_text_file("/dev/zero"), FileError);
    const std::string huge = folder.file("huge");
    replace_text_file(huge, "x");
    std::filesystem::resize_file(huge, std::uintmax_t{1} << 40);
    EXPECT_THROW((void)read_text_file(huge), FileError) << "a hole of 1 TiB";
}

}  // namespace
}  // namespace cohort
