// Requests to a running job through files.
#include "train/run/control.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "cohort/core/error.hpp"
#include "support/core/patience.hpp"
#include "support/core/temp_folder.hpp"
#include "train/coordinator/control_server.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Control : public testing::Test {
protected:
    /// A job that takes requests; accepts all but "mode wrong".
    std::unique_ptr<ControlServer> job() {
        return std::make_unique<ControlServer>(ctl, [this](const std::string& words) {
            taken.push_back(words);
            if (words == "mode wrong") {
                fail<UsageError>({.where = "--mode", .what = "unknown"});
            }
            return "yes to " + words + "\n";
        });
    }
    /// Looks once, as if enough time had passed.
    void look(ControlServer& desk) { desk.look(now += ControlServer::kLook); }
    std::string token() const {
        std::ifstream file(ctl + "/run");
        std::string text;
        std::getline(file, text);
        return text;
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(ctl + "/" + name) << text;
    }
    std::string reply(const std::string& id) const {
        std::ifstream file(ctl + "/reply-" + id);
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
    }
    std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(ctl)) {
            names.push_back(entry.path().filename().string());
        }
        return names;
    }

    TempFolder folder;
    std::string out = folder.file("out");
    std::string ctl = out + "/ctl";
    std::vector<std::string> taken;
    Clock::Seconds now{100};

    void SetUp() override { fs::create_directories(out); }
};

TEST_F(Control, ARequestIsAnsweredOnceAndLeavesNothing) {
    const auto desk = job();
    auto asked = std::async(std::launch::async,
                            [&] { return ask_job(out, "mode static:4", test::kPatience); });
    while (asked.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
        look(*desk);
    }
    const ControlReply answer = asked.get();
    EXPECT_TRUE(answer.accepted);
    EXPECT_EQ(answer.text, "yes to mode static:4\n");
    look(*desk);
    EXPECT_THAT(taken, ElementsAre("mode static:4"));
    EXPECT_THAT(files(), ElementsAre("run"));
}

TEST_F(Control, AnAnswerIsReadAlsoWhenTheJobEndsAtOnce) {
    auto desk = job();
    auto asked =
        std::async(std::launch::async, [&] { return ask_job(out, "stop", test::kPatience); });
    while (taken.empty()) {
        look(*desk);
    }
    desk.reset();
    EXPECT_TRUE(asked.get().accepted);
    EXPECT_FALSE(fs::exists(ctl));
}

TEST_F(Control, ARefusalCarriesItsReason) {
    const auto desk = job();
    write("request-7", token() + "\nmode wrong\n");
    look(*desk);
    EXPECT_THAT(reply("7"), HasSubstr("refused\n"));
    EXPECT_THAT(reply("7"), HasSubstr("unknown"));
}

TEST_F(Control, LooksOncePerSecond) {
    const auto desk = job();
    desk->look(now);
    write("request-1", token() + "\nstatus\n");
    desk->look(now + Clock::Seconds(0.9));
    EXPECT_THAT(taken, IsEmpty());
    desk->look(now + Clock::Seconds(1.0));
    EXPECT_THAT(taken, ElementsAre("status"));
}

TEST_F(Control, WhatIsNoRequestOfThisRunIsTakenAwayWithoutHarm) {
    const auto desk = job();
    write("request-empty", "");
    write("request-oneline", token() + "\n");
    write("request-torn", token() + "\nstatus");
    write("request-other", std::string(32, 'a') + "\nstop\n");
    write("request-control", token() + "\nmode \x1b[2J\n");
    write("request-long", token() + "\nmode " + std::string(kControlBytes, 'a') + "\n");
    write("elsewhere", token() + "\nstop\n");
    fs::create_symlink(ctl + "/elsewhere", ctl + "/request-link");
    ASSERT_EQ(::mkfifo((ctl + "/request-pipe").c_str(), 0600), 0);
    fs::create_directory(ctl + "/request-folder");
    look(*desk);
    EXPECT_THAT(taken, IsEmpty());
    EXPECT_THAT(reply("other"), HasSubstr("another run"));
    EXPECT_THAT(reply("long"), HasSubstr("longer than"));
    EXPECT_THAT(reply("pipe"), HasSubstr("not a regular file"));
    for (const std::string& name : files()) {
        EXPECT_FALSE(name.starts_with("request-")) << name;
    }
}

TEST_F(Control, AnotherUsersRequestIsRefused) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can give a file away";
    }
    const auto desk = job();
    write("request-theirs", token() + "\nstop\n");
    ASSERT_EQ(::chown((ctl + "/request-theirs").c_str(), 65534, 65534), 0);
    look(*desk);
    EXPECT_THAT(taken, IsEmpty());
    EXPECT_THAT(reply("theirs"), HasSubstr("belongs to user 65534"));
}

TEST_F(Control, AFolderThatOthersCouldWriteIntoIsRefused) {
    fs::create_directory(ctl);
    fs::permissions(ctl, fs::perms::all);
    EXPECT_THROW(job(), FileError);
    EXPECT_THROW((void)ask_job(out, "status", Clock::Seconds(1)), FileError);
    fs::permissions(ctl, fs::perms::owner_all);
    EXPECT_NO_THROW(job());
    fs::create_directory(folder.file("real"));
    fs::remove_all(ctl);
    fs::create_symlink(folder.file("real"), ctl);
    EXPECT_THROW(job(), FileError);
}

TEST_F(Control, TheFolderIsTheOwnersAloneAndGoesWithTheJob) {
    {
        const auto desk = job();
        EXPECT_EQ(fs::status(ctl).permissions(), fs::perms::owner_all);
        write("request-late", "x");
    }
    EXPECT_FALSE(fs::exists(ctl));
}

TEST_F(Control, WhatAKilledRunLeftIsNotCarriedOut) {
    fs::create_directory(ctl);
    fs::permissions(ctl, fs::perms::owner_all);
    write("run", std::string(32, 'a') + "\n");
    write("request-1", std::string(32, 'a') + "\nstop\n");
    const auto desk = job();
    look(*desk);
    EXPECT_THAT(taken, IsEmpty());
    EXPECT_NE(token(), std::string(32, 'a'));
}

TEST_F(Control, AskingSaysWhyThereIsNoAnswer) {
    EXPECT_THROW((void)ask_job(out, "status", Clock::Seconds(1)), FileError) << "never ran";
    auto desk = job();
    EXPECT_THROW((void)ask_job(out, "mode", Clock::Seconds(1)), UsageError);
    EXPECT_THROW((void)ask_job(out, "mode static:4\nstop", Clock::Seconds(1)), UsageError);
    EXPECT_THROW((void)ask_job(out, "pause", Clock::Seconds(1)), UsageError);
    EXPECT_THROW((void)ask_job(out, "status", Clock::Seconds(0.01)), PeerError) << "does not look";
    EXPECT_THAT(files(), ElementsAre("run")) << "the request was withdrawn";
    auto asked =
        std::async(std::launch::async, [&] { return ask_job(out, "status", test::kPatience); });
    while (files().size() < 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    desk.reset();
    EXPECT_THROW((void)asked.get(), PeerError) << "the job ended";
}

}  // namespace
}  // namespace cohort
