#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "support/train/live_lines.hpp"
#include "train/live/run_view.hpp"
#include "train/live/view_page.hpp"
#include "train/live/view_text.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class LiveView : public testing::Test {
protected:
    const RunView& after(const std::string& lines) {
        reader.feed(lines, viewer);
        return viewer.view();
    }
    std::vector<std::string> text(TextSize size = {}, bool colours = false) const {
        return view_text(viewer.view(), size, colours);
    }
    std::string page() const { return view_page(viewer.view(), 2, 0); }

    RunLogReader reader{"metrics.jsonl"};
    RunViewer viewer{"runs/a"};
};

TEST_F(LiveView, TellsOfEachWorkerWhatItDoes) {
    const RunView& view = after(test::start_line() + test::train_line());
    ASSERT_EQ(view.workers.size(), 4U);
    EXPECT_EQ(view.workers[0].state, WorkerView::State::kWaiting) << "three quarters of its time";
    EXPECT_DOUBLE_EQ(view.workers[0].waits, 0.75);
    EXPECT_EQ(view.workers[0].speed, 1);
    EXPECT_EQ(view.workers[1].state, WorkerView::State::kComputing);
    EXPECT_EQ(view.workers[1].speed, 0.5);
    EXPECT_EQ(view.workers[2].state, WorkerView::State::kSlow);
    EXPECT_EQ(view.workers[2].cause, "device");
    EXPECT_EQ(view.workers[2].speed, 0.25);
    EXPECT_EQ(view.workers[2].batch, 64);
    EXPECT_EQ(view.workers[2].lag, 1.75);
    EXPECT_EQ(view.workers[3].state, WorkerView::State::kLost);
    EXPECT_EQ(view.workers[3].speed, 0);
    EXPECT_EQ(view.live, 3);
    EXPECT_EQ(view.share_done(), 0.25);
    EXPECT_EQ(view.eta(), "1:30");
}

TEST_F(LiveView, TheBudgetOfAResumedRunIsThatOfItsLines) {
    EXPECT_EQ(after(test::start_line() + test::train_line(15000, 30000)).share_done(), 0.5);
}

TEST_F(LiveView, FillsAnEightyColumnTerminal) {
    after(test::start_line() + test::switch_line() + test::train_line());
    EXPECT_THAT(
        text(),
        ElementsAre(
            "lenet  servers, mode ssgd  runs/a                                   running 0:30",
            "[#########.........................]  15,000 of 60,000 samples  25.0 %  eta 1:30",
            "500 samples/s  loss 0.4366  accuracy 84.27 %  3 workers live  2 pushes waiting",
            "    0:18  ssgd -> static:2: worker 2 is 4.0x slower", "",
            "worker  state      speed              own time  waits     lag   batch  cause",
            "     0  waiting    ########### 100 %    100 ms   75 %    0.00      32  ",
            "     1  computing  ######.....  50 %    200 ms   33 %    0.50      32  ",
            "     2  slow       ###........  25 %    400 ms    0 %    1.75      64  device",
            "     3  lost       ...........   0 %         -      -       -       -  "));
}

TEST_F(LiveView, FewRowsShowTheSlowestFirstAndCountTheRest) {
    after(test::start_line() + test::train_line());
    const std::vector<std::string> lines = text({.columns = 80, .rows = 8});
    EXPECT_EQ(lines.size(), 8U);
    EXPECT_THAT(lines[lines.size() - 3], HasSubstr("3  lost"));
    EXPECT_THAT(lines[lines.size() - 2], HasSubstr("2  slow"));
    EXPECT_EQ(lines.back(), "and 2 more workers, none slower than these");
}

TEST_F(LiveView, NoLineIsWiderThanTheTerminal) {
    after(test::start_line() + test::switch_line() + test::train_line());
    viewer.set_life("gone", std::string(300, 'x'), true);
    for (const int columns : {1, 7, 40, 60, 79, 200}) {
        for (const std::string& line : text({.columns = columns})) {
            EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
        }
    }
}

TEST_F(LiveView, TextsFromFilesDoNotControlTheTerminalOrThePage) {
    after(test::start_line() + R"({"event":"error","message":"\u001b[2J<script>","exit_code":3})"
                               "\n");
    for (const std::string& line : text()) {
        EXPECT_THAT(line, Not(HasSubstr("\033")));
    }
    EXPECT_THAT(page(), HasSubstr("exit code 3: ?[2J&lt;script&gt;"));
}

TEST_F(LiveView, ColoursMarkSlowAndLostWorkersAlone) {
    after(test::start_line() + test::train_line());
    const std::vector<std::string> lines = text({}, true);
    EXPECT_EQ(
        std::ranges::count_if(
            lines, [](const std::string& line) { return line.find('\033') != std::string::npos; }),
        2);
}

TEST_F(LiveView, RegroupingsInARowAreOneChange) {
    const std::string regrouping =
        R"({"event":"regrouping","from":"lb-bsp","to":"lb-bsp","why":"batches","requested_at":5,)"
        R"("samples_applied":1,"in_force_after_s":null,"first_update_after_s":null,)"
        R"("slowest_own_s":0})"
        "\n";
    const RunView& view = after(test::start_line() + regrouping + regrouping + regrouping);
    ASSERT_EQ(view.changes.size(), 1U);
    EXPECT_EQ(view.changes[0].text, "lb-bsp regrouped 3 times: batches");
    EXPECT_EQ(after(test::switch_line() + regrouping).changes.size(), 3U);
}

TEST_F(LiveView, SaysHowTheRunEnded) {
    EXPECT_FALSE(after(test::start_line()).over);
    EXPECT_THAT(page(), HasSubstr("http-equiv=\"refresh\""));
    const RunView& view = after(test::summary_line("signal"));
    EXPECT_TRUE(view.over);
    EXPECT_EQ(view.life, "stopped");
    EXPECT_THAT(view.note, HasSubstr("--resume"));
    EXPECT_THAT(page(), Not(HasSubstr("http-equiv=\"refresh\"")));
}

TEST_F(LiveView, ThePageShowsWhatTheTerminalShows) {
    after(test::start_line() + test::switch_line() + test::train_line());
    for (const char* part :
         {"15,000 of 60,000 samples, 25.0 %, eta 1:30", "500 samples/s", "accuracy 84.27 %",
          "ssgd -&gt; static:2: worker 2 is 4.0x slower", "<tr class=\"slow\">", "slow: device",
          "width:25%", "prefers-color-scheme: dark", "width=device-width"}) {
        EXPECT_THAT(page(), HasSubstr(part));
    }
}

TEST_F(LiveView, ThePageOfThousandsOfWorkersStaysSmall) {
    std::string own = "0.5";
    std::string lag = "0";
    for (int worker = 1; worker < 5000; ++worker) {
        own += ",0.25";
        lag += ",0";
    }
    after(test::start_line(5000) +
          R"({"event":"train","samples_applied":1,"updates":1,"train_s":1,"lr":0.1,)"
          R"("gradient_norm":1,"samples_per_s":1,"mode":"ssgd","live":5000,"pending":0,"loss":1,)"
          R"("accuracy":0.5,"lag":[)" +
          lag + "],\"own_s\":[" + own + "]}\n");
    EXPECT_LT(page().size(), 40'000U);
    EXPECT_THAT(page(), HasSubstr("and 4937 more workers, none slower than these"));
    EXPECT_THAT(page(), HasSubstr("<th scope=\"row\">0</th>")) << "the slow one";
}

}  // namespace
}  // namespace cohort
