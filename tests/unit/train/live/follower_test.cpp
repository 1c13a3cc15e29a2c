#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "cohort/core/error.hpp"
#include "core/system/run_lock.hpp"
#include "support/core/temp_folder.hpp"
#include "support/train/live_lines.hpp"
#include "train/live/live_page.hpp"
#include "train/live/run_follower.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Following : public testing::Test {
protected:
    void append(const std::string& text) const {
        std::ofstream(metrics, std::ios::app | std::ios::binary) << text;
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder.file(name), std::ios::binary) << text;
    }

    TempFolder folder;
    std::string metrics = folder.file("metrics.jsonl");
};

TEST_F(Following, ReadsWhatIsAddedAndNoTornLine) {
    const RunLock lock(folder.path());
    RunFollower follower(folder.path());
    EXPECT_EQ(follower.look().life, "starting");
    append(test::start_line() + test::train_line(1000).substr(0, 80));
    EXPECT_EQ(follower.look().life, "running");
    EXPECT_EQ(follower.look().samples, 0);
    append(test::train_line(1000).substr(80) + test::train_line(2000));
    EXPECT_EQ(follower.look().samples, 2000);
}

TEST_F(Following, OfALongFileTheBeginningAndTheEndAreRead) {
    append(test::start_line());
    std::string many;
    while (many.size() < 1'000'000) {
        many += test::train_line(1000);
    }
    for (std::int64_t bytes = 0; bytes < RunFollower::kTail + 2'000'000; bytes += 1'000'000) {
        append(many);
    }
    append(test::train_line(7000));
    RunFollower follower(folder.path());
    EXPECT_EQ(follower.look().samples, 7000);
    EXPECT_EQ(follower.look().model, "lenet");
    append(test::train_line(8000));
    EXPECT_EQ(follower.look().samples, 8000);
}

/// A resumed run cuts the file back to the checkpoint; --overwrite makes another file.
TEST_F(Following, BeginsAnewWhenTheFileWasCutOrReplaced) {
    append(test::start_line() + test::train_line(1000) + test::train_line(2000));
    RunFollower follower(folder.path());
    EXPECT_EQ(follower.look().samples, 2000);
    fs::resize_file(metrics, test::start_line().size());
    append(test::train_line(500));
    EXPECT_EQ(follower.look().samples, 500) << "shorter than before";
    fs::resize_file(metrics, test::start_line().size());
    append(test::train_line(600) + test::train_line(700) + test::train_line(800));
    EXPECT_EQ(follower.look().samples, 800) << "longer than before";
    fs::remove(metrics);
    append(test::start_line(2));
    EXPECT_EQ(follower.look().live, 2);
}

TEST_F(Following, ExitCodeRecordsAndLockTellWhetherTheJobRuns) {
    std::optional<RunLock> lock(std::in_place, folder.path());
    append(test::start_line() + test::train_line());
    RunFollower follower(folder.path());
    EXPECT_EQ(follower.look().life, "running");
    lock.reset();
    EXPECT_EQ(follower.look().life, "gone") << "killed: no end is told";
    EXPECT_THAT(follower.look().note, HasSubstr("killed?"));
    lock.emplace(folder.path());
    append(test::summary_line());
    write("exit_code", "0\nbudget\n");
    EXPECT_EQ(follower.look().life, "done");
    EXPECT_TRUE(follower.look().over);
    write("exit_code", "4\nrank 0 has died\n");
    EXPECT_EQ(follower.look().life, "failed");
    EXPECT_EQ(follower.look().note, "exit code 4: rank 0 has died");
}

TEST_F(Following, LookingAtTheLockNeverKeepsARunOut) {
    { const RunLock earlier(folder.path()); }
    EXPECT_EQ(run_lock_state(folder.path()).held, false);
    EXPECT_TRUE(run_lock_state(folder.path()).here);
    const RunLock lock(folder.path());
    EXPECT_EQ(run_lock_state(folder.path()).held, true);
    EXPECT_THROW(RunLock second(folder.path()), UsageError);
}

TEST_F(Following, AFolderWithoutARunIsRefused) {
    EXPECT_THROW(RunFollower(folder.file("none")), FileError);
    EXPECT_THROW(RunFollower(folder.path()), FileError);
}

class Page : public Following {
protected:
    std::string text() const {
        std::ifstream file(page_file);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static std::string line(const std::string& text) { return text.substr(0, text.size() - 1); }

    std::string page_file = folder.file("live.html");
};

TEST_F(Page, IsWrittenAtOnceThenNotMoreOftenThanAsked) {
    LivePage page(folder.path(), 2);
    page.add(line(test::start_line()), Clock::Seconds(0));
    EXPECT_THAT(text(), HasSubstr("0 of 60,000 samples"));
    page.add(line(test::train_line(1000)), Clock::Seconds(1));
    EXPECT_THAT(text(), HasSubstr("0 of 60,000 samples"));
    page.add(line(test::train_line(2000)), Clock::Seconds(2));
    EXPECT_THAT(text(), HasSubstr("2,000 of 60,000 samples"));
    page.add(line(test::summary_line()), Clock::Seconds(2.5));
    EXPECT_THAT(text(), HasSubstr(">done</b>")) << "the end is always told";
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing else";
}

TEST_F(Page, ThatCannotBeWrittenStopsNothing) {
    fs::create_directory(page_file);
    LivePage page(folder.path(), 1);
    page.add(line(test::start_line()), Clock::Seconds(0));
    page.add(line(test::train_line()), Clock::Seconds(5));
    EXPECT_TRUE(fs::is_directory(page_file));
}

}  // namespace
}  // namespace cohort
