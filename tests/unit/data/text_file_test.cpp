#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <sys/stat.h>
#include <filesystem>
#include <string>

#include "cohort/core/error.hpp"
#include "data/file/file_io.hpp"
#include "data/file/text_file.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

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

TEST(TextFile, LinksAreReplacedAndNotFollowed) {
    const TempFolder folder;
    const std::string path = folder.file("a.txt");
    replace_text_file(folder.file("victim"), "mine");
    for (const char* target : {"victim", "missing"}) {
        fs::create_symlink(folder.file(target), path);
        replace_text_file(path, "text");
        EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path)));
        fs::remove(path);
    }
    EXPECT_EQ(read_text_file(folder.file("victim")), "mine");
    EXPECT_FALSE(fs::exists(folder.file("missing")));
}

TEST(TextFile, WhatIsNoRegularFileStays) {
    const TempFolder folder;
    const std::string path = folder.file("a");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THROW(replace_text_file(path, "x"), FileError);
    EXPECT_TRUE(fs::is_fifo(path));
    EXPECT_THROW(replace_text_file(folder.path(), "x"), FileError);
    if (::geteuid() != 0 ||
        ::mknod(folder.file("null").c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0) {
        GTEST_SKIP() << "no permission to make a device node";
    }
    EXPECT_THROW(replace_text_file(folder.file("null"), "x"), FileError);
    EXPECT_TRUE(fs::is_character_file(folder.file("null")));
}

TEST(TextFile, AFileThatAppearsMeanwhileIsNotReplaced) {
    const TempFolder folder;
    const std::string path = folder.file("a.txt");
    AtomicFile file({path, false});
    replace_text_file(path, "mine");
    EXPECT_THROW(file.commit(), UsageError);
    EXPECT_EQ(read_text_file(path), "mine");
    EXPECT_THROW(replace_text_file({path, false}, "x"), UsageError);
    replace_text_file({folder.file("b.txt"), false}, "new");
    EXPECT_EQ(read_text_file(folder.file("b.txt")), "new");
}

TEST(TextFile, AFolderThatIsExchangedDoesNotLeadItElsewhere) {
    const TempFolder folder;
    fs::create_directory(folder.file("out"));
    fs::create_directory(folder.file("victim"));
    {
        AtomicFile file(folder.file("out/a"));
        fs::rename(folder.file("out"), folder.file("moved"));
        fs::create_directory_symlink(folder.file("victim"), folder.file("out"));
        file.commit();
    }
    EXPECT_TRUE(fs::is_empty(folder.file("victim")));
    EXPECT_TRUE(fs::exists(folder.file("moved/a")));
    const auto real = [&] { AtomicFile({folder.file("out/a"), true, FolderRule::kOwnReal}); };
    EXPECT_THROW(real(), FileError);
}

TEST(TextFile, ATemporaryFileThatIsExchangedIsFoundOut) {
    const TempFolder folder;
    AtomicFile file(folder.file("a"));
    std::string name;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
        name = entry.path().string();
    }
    EXPECT_TRUE(fs::equivalent(file.temporary(), name));
    fs::remove(name);
    fs::create_symlink(folder.file("victim"), name);
    EXPECT_THROW(file.commit(), FileError);
    EXPECT_FALSE(fs::exists(fs::symlink_status(folder.file("a"))));
}

TEST(TextFile, ErrorsNameThePath) {
    const TempFolder folder;
    EXPECT_THAT([&] { replace_text_file(folder.file("no/a.txt"), "x"); },
                testing::ThrowsMessage<FileError>(testing::HasSubstr("no/a.txt")));
    EXPECT_THAT([&] { (void)read_text_file(folder.file("b.txt")); },
                testing::ThrowsMessage<FileError>(testing::HasSubstr("b.txt")));
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
