#include "cohort/core/output.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

class OutputTest : public testing::Test {
protected:
    void put(const std::string& name, const std::string& text = "mine") const {
        std::ofstream(path(name)) << text;
    }
    [[nodiscard]] std::string path(const std::string& name) const { return folder_.file(name); }
    void link(const std::string& from, const std::string& to) const {
        fs::create_symlink(path(to), path(from));
    }
    /// check_output("--out", name).
    [[nodiscard]] OutputFile check(const std::string& name, bool overwrite = true,
                                   const std::vector<std::string>& inputs = {}) const {
        return check_output(
            {.option = "--out", .path = path(name), .overwrite = overwrite, .inputs = inputs});
    }

    TempFolder folder_;
};

TEST(TrustedTest, OwnersAndRoot) {
    constexpr uid_t kMe = 1000;
    constexpr uid_t kOther = 1001;
    EXPECT_TRUE(trusted({.owner = kMe, .mode = 0777, .user = kMe, .sudo = {}}));
    EXPECT_TRUE(trusted({.owner = 0, .mode = 01777, .user = kMe, .sudo = {}}));
    EXPECT_FALSE(trusted({.owner = kOther, .mode = 0777, .user = kMe, .sudo = {}}));
    EXPECT_FALSE(trusted({.owner = kOther, .mode = 0755, .user = kMe, .sudo = kOther}))
        << "sudo counts for root only";
    EXPECT_TRUE(trusted({.owner = 0, .mode = 0777, .user = 0, .sudo = {}}));
    EXPECT_TRUE(trusted({.owner = kMe, .mode = 0755, .user = 0, .sudo = {}}));
    EXPECT_TRUE(trusted({.owner = kMe, .mode = 0775, .user = 0, .sudo = kMe}));
    for (const mode_t mode : {0775, 0757, 0777}) {
        EXPECT_FALSE(trusted({.owner = kOther, .mode = mode, .user = 0, .sudo = {}}));
        EXPECT_FALSE(trusted({.owner = kOther, .mode = mode, .user = 0, .sudo = kMe}));
    }
}

TEST_F(OutputTest, ANewFileAndOneToReplace) {
    EXPECT_EQ(check("new", false).path, path("new"));
    EXPECT_FALSE(check("new", false).replace);
    put("old");
    EXPECT_TRUE(check("old").replace);
    EXPECT_THAT(message_of<UsageError>([&] { (void)check("old", false); }),
                AllOf(HasSubstr("--out " + path("old")), HasSubstr("holds a file already"),
                      HasSubstr("--overwrite")));
}

TEST_F(OutputTest, OnesOwnFileIsReplaced) {
    put("page", "<!-- cohort -->\nrest");
    put("short", "<!--");
    const auto own = [&](const std::string& name) {
        return check_output(
            {.option = "--out", .path = path(name), .own_start = "<!-- cohort -->\n"});
    };
    EXPECT_TRUE(own("page").replace);
    EXPECT_THROW((void)own("short"), UsageError);
}

TEST_F(OutputTest, LinksLeadToRegularFilesOnly) {
    put("file");
    link("link", "file");
    link("link-to-link", "link");
    EXPECT_EQ(check("link-to-link").path, fs::canonical(path("file")).string());
    EXPECT_THROW((void)check("link-to-link", false), UsageError);
    link("nowhere", "missing");
    link("circle", "circle");
    fs::create_directory(path("folder"));
    link("link-to-folder", "folder");
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    link("link-to-pipe", "pipe");
    for (const char* name :
         {"nowhere", "circle", "folder", "link-to-folder", "pipe", "link-to-pipe"}) {
        EXPECT_NE(message_of<FileError>([&] { (void)check(name); }), "") << name;
    }
    EXPECT_THROW((void)check_output({.option = "--out", .path = "/dev/null", .overwrite = true}),
                 FileError);
}

TEST_F(OutputTest, AnInputUnderAnyName) {
    put("input");
    link("link", "input");
    fs::create_hard_link(path("input"), path("hard"));
    const std::vector<std::string> inputs{"", path("missing"), path("input")};
    for (const char* name : {"input", "link", "hard"}) {
        EXPECT_THAT(message_of<UsageError>([&] { (void)check(name, true, inputs); }),
                    AllOf(HasSubstr("reads"), HasSubstr(path("input"))));
    }
    put("other");
    EXPECT_NO_THROW((void)check("other", true, inputs));
}

TEST_F(OutputTest, FilesAreOpenedInPlaceOnlyWhenTheyAreNothingElse) {
    const auto open_it = [&](const std::string& name) {
        const int file = open_in_place(path(name).c_str(), O_WRONLY | O_CREAT | O_APPEND);
        const int error = file < 0 ? errno : 0;
        if (file >= 0) {
            ::close(file);
        }
        return error;
    };
    EXPECT_EQ(open_it("new"), 0);
    put("file");
    EXPECT_EQ(open_it("file"), 0);
    link("link", "file");
    EXPECT_EQ(open_it("link"), ELOOP);
    link("dangling", "made-by-it");
    EXPECT_EQ(open_it("dangling"), ELOOP);
    EXPECT_FALSE(fs::exists(path("made-by-it")));
    fs::create_hard_link(path("file"), path("hard"));
    EXPECT_EQ(open_it("hard"), EMLINK);
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    EXPECT_EQ(open_it("pipe"), ENXIO) << "and no wait for a reader";
    EXPECT_EQ(open_in_place("/dev/null", O_WRONLY), -1);
    EXPECT_THAT(message_of<FileError>([&] { (void)open_in_place_or_fail(path("link"), O_WRONLY); }),
                AllOf(HasSubstr(path("link")), HasSubstr("a link")));
}

TEST_F(OutputTest, AFolderIsHeldWhateverItsNameLeadsTo) {
    fs::create_directory(path("checkpoints"));
    const OutputFolder folder(path("checkpoints"), FolderRule::kOwnReal);
    fs::rename(path("checkpoints"), path("moved"));
    fs::create_directory(path("victim"));
    put("victim/file");
    put("moved/file");
    link("checkpoints", "victim");
    EXPECT_EQ(folder.remove("file"), 0);
    EXPECT_EQ(folder.remove("file"), 0) << "gone is as good";
    EXPECT_TRUE(fs::exists(path("victim/file")));
    EXPECT_FALSE(fs::exists(path("moved/file")));
    EXPECT_NO_THROW(OutputFolder(path("checkpoints"), FolderRule::kOwn));
    EXPECT_THAT(
        message_of<FileError>([&] { OutputFolder(path("checkpoints"), FolderRule::kOwnReal); }),
        HasSubstr("a link"));
    EXPECT_THROW(make_own_folder(path("checkpoints"), FolderRule::kOwnReal), FileError);
}

TEST_F(OutputTest, LinksInAnOutputFolderAreFound) {
    EXPECT_NO_THROW(check_output_folder(path("not/there/yet"), {"a"}, {"b"}));
    const auto check = [&] { check_output_folder(folder_.path(), {"a", "c"}, {"b"}); };
    put("a");
    fs::create_directory(path("b"));
    EXPECT_NO_THROW(check());
    link("c", "missing");
    EXPECT_THAT(message_of<FileError>(check), HasSubstr(path("c")));
    fs::remove(path("c"));
    fs::remove(path("b"));
    link("b", "missing");
    EXPECT_THAT(message_of<FileError>(check), HasSubstr(path("b")));
    fs::remove(path("b"));
    put("b");
    EXPECT_THROW(check(), FileError) << "a file in the place of a folder";
}

TEST(ErrnoTest, AFullDiskHasItsOwnType) {
    EXPECT_THROW(fail_errno("x", "y", ENOSPC), DiskFullError);
    EXPECT_THROW(fail_errno("x", "y", EDQUOT), DiskFullError);
    EXPECT_THAT(message_of<DiskFullError>([] { fail_errno("a.h5", "writing failed", ENOSPC); }),
                "[a.h5] writing failed; got No space left on device");
    try {
        fail_errno("x", "y", EACCES);
    } catch (const DiskFullError&) {
        FAIL();
    } catch (const FileError&) {
        SUCCEED();
    }
}

}  // namespace
}  // namespace cohort
