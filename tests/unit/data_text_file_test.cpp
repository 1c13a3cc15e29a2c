#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cohort
