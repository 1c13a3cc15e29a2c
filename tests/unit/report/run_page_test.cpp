// What the page of real runs says, for lines made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/sched/stragglers.hpp"
#include "report/run/run_page.hpp"
#include "support/core/temp_folder.hpp"
#include "support/report/page_tags.hpp"
#include "support/report/run_lines.hpp"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::ThrowsMessage;

const std::string kSlowWorker =
    "{\"event\":\"straggler_end\",\"worker\":1,\"cause\":\"device\",\"by_lag\":false,"
    "\"begin_s\":2,\"end_s\":40,\"iterations\":90,\"slowdown\":4}\n";
const std::string kLoss =
    "{\"event\":\"lost\",\"samples_applied\":300,\"train_s\":3,\"rank\":2,\"worker\":1,"
    "\"reason\":\"pid 7 <died>\",\"live\":1}\n"
    "{\"event\":\"regrouping\",\"from\":\"ssgd\",\"to\":\"ssgd\",\"why\":\"worker 1 was lost\","
    "\"requested_at\":3.25,\"in_force_after_s\":0.25,\"first_update_after_s\":0.5}\n"
    "{\"event\":\"joined\",\"samples_applied\":500,\"train_s\":5,\"rank\":2,\"worker\":1,"
    "\"reason\":\"\",\"live\":2}\n";

class RunPage : public testing::Test {
protected:
    /// Writes a run's folder.
    std::string write(const std::string& name, const std::string& lines) {
        std::filesystem::create_directory(folder_.file(name));
        std::ofstream(folder_.file(name) + "/" + kMetricsFile) << lines;
        return folder_.file(name);
    }
    [[nodiscard]] static std::string said(const std::vector<std::string>& folders) {
        return run_verdict(read_runs(folders));
    }
    [[nodiscard]] static std::string page(const std::vector<std::string>& folders) {
        return report_html(read_runs(folders), "page.csv");
    }
    TempFolder folder_;
};

TEST_F(RunPage, BeginsWithTheTimeToTheTargetAndWhoWasSlow) {
    const std::string ssgd = write(
        "ssgd",
        test::run_lines({.windows = 40, .slowness = 4, .target = 0.4, .between = kSlowWorker}));
    const std::string adaptive =
        write("adaptive", test::run_lines({.windows = 10, .target = 0.4, .mode = "adaptive"}));
    EXPECT_EQ(said({ssgd}),
              "ssgd reached 40 % after 20.0 s; worker 1 ran at 25 % of the fastest worker's speed "
              "from 2.0 s on (cause: device).");
    EXPECT_EQ(said({ssgd, adaptive}),
              "adaptive reached 40 % after 5.00 s, ssgd after 20.0 s (4 times as long); in ssgd "
              "worker 1 ran at 25 % of the fastest worker's speed from 2.0 s on (cause: device).");
    const std::string text = page({ssgd, adaptive});
    EXPECT_THAT(text, StartsWith("<!DOCTYPE html>"));
    const std::size_t sentence = text.find("<h1 class=\"sentence\">adaptive reached 40 %");
    EXPECT_LT(sentence, text.find("<title id=\"lanes-t\">"));
    EXPECT_LT(text.find("<title id=\"lanes-t\">"), text.find("<table>"));
}

TEST_F(RunPage, SaysWhatWasNotReached) {
    const test::RunText late{.windows = 10, .accuracy = 0.5, .target = 0.6};
    EXPECT_EQ(said({write("a", test::run_lines(late))}),
              "ssgd did not reach 60 % within 10.0 s (best: 50 % accuracy).");
    EXPECT_EQ(
        said({folder_.file("a"), write("b", test::run_lines({.windows = 10, .target = 0.6}))}),
        "b reached 60 % after 8.00 s, a not within 10.0 s.");
    EXPECT_EQ(said({folder_.file("a"), write("c", test::run_lines(late))}),
              "no run reached 60 %: a trained for 10.0 s to 50 % accuracy, c trained for 10.0 s to "
              "50 % accuracy.");
}

TEST_F(RunPage, WithoutATargetRunsAreComparedAtWhatAllReached) {
    const std::string low = write("low", test::run_lines({.windows = 10, .accuracy = 0.4}));
    const std::string high = write("high", test::run_lines({.windows = 10, .accuracy = 0.8}));
    EXPECT_EQ(said({low}), "ssgd trained for 10.0 s to 40 % accuracy.");
    EXPECT_EQ(said({low, high}),
              "high reached 40 %, which all reached, after 5.00 s, low after 10.0 s (2 times as "
              "long).");
}

TEST_F(RunPage, SaysWhoWasLostAndWhatFailed) {
    const std::string lost = write("lost", test::run_lines({.between = kLoss}));
    EXPECT_THAT(said({lost}), EndsWith("; worker 1 was lost at 3.0 s and joined again at 5.0 s."));
    const std::string text = report_markdown(read_runs({lost}));
    EXPECT_THAT(text, HasSubstr("**What faults and safety cost**"));
    EXPECT_THAT(text, HasSubstr("| lost | 0 | 1 | 1 | 0 | 0.00 | 0 |"));
    const std::string failed =
        write("failed", test::run_lines({.summary = false}) +
                            "{\"event\":\"error\",\"message\":\"disk full\",\"exit_code\":3}\n");
    EXPECT_THAT(said({failed}), EndsWith("; it failed: disk full."));
    EXPECT_THAT(page({failed}), HasSubstr("failed, exit status 3"));
    const std::string killed = write("killed", test::run_lines({.summary = false}) + "{\"eve");
    EXPECT_EQ(said({killed}), "ssgd has trained for 10.0 s to 80 % accuracy so far.");
    EXPECT_THAT(page({killed}), AllOf(HasSubstr("it has no summary"), HasSubstr("is incomplete")));
}

/// Worker 0 computes 0.2 s of the 0.9 s of an iteration, sends and receives 0.1 s, waits 0.6 s;
/// worker 1 computes 0.8 s. A lane is 14 high.
TEST_F(RunPage, LanesHaveTheSharesOfTheTime) {
    const std::vector<RunHistory> runs =
        read_runs({write("a", test::run_lines({.windows = 40, .slowness = 4}))});
    TimeMean waiting;
    for (const RunColumn& column : runs[0].columns.all()) {
        const WorkerColumn& fast = column.workers.at(0);
        const WorkerColumn& slow = column.workers.at(1);
        EXPECT_NEAR(fast.compute_s / fast.seconds, 2.0 / 9, 1e-9);
        EXPECT_NEAR(fast.transfer_s / fast.seconds, 1.0 / 9, 1e-9);
        EXPECT_NEAR(fast.wait_s / fast.seconds, 6.0 / 9, 1e-9);
        EXPECT_NEAR(slow.compute_s / slow.seconds, 8.0 / 9, 1e-9);
    }
    const std::string picture = draw_run_lanes(runs, "lanes", 900);
    // Worker 0 from the bottom of its lane, at 29 + 4 + 14 = 47, up: 14 x 2/9 = 3.1 computing.
    EXPECT_THAT(picture, HasSubstr("class=\"k2\" d=\"M54.0 47.0"));
    EXPECT_THAT(picture, HasSubstr("V43.9H54.0z"));
}

/// Ten seconds under ssgd, then five more under static:3.
TEST_F(RunPage, ResumedInAnotherModeEachPartHasItsOwn) {
    std::string more = test::run_lines({.windows = 0, .summary = false, .mode = "static:3"});
    more.replace(more.find("start"), 5, "resume");
    for (int second = 11; second <= 15; ++second) {
        more += test::train_line(second, 1, "static:3");
    }
    const std::string folder =
        write("a", test::run_lines({.windows = 10, .summary = false, .between = more}));
    EXPECT_THAT(said({folder}), StartsWith("ssgd, then static:3 has trained for 15.0 s"));
    EXPECT_THAT(
        draw_run_lanes(read_runs({folder}), "lanes", 900),
        AllOf(HasSubstr("<title>at the start</title>"), HasSubstr("<title>0:10: resumed</title>")));
}

TEST_F(RunPage, LanesHaveWhoWasSlowOrLostFirstAndTheModesWithTheirReasons) {
    const std::string folder = write(
        "a", test::run_lines(
                 {.windows = 40,
                  .slowness = 4,
                  .target = 0.4,
                  .between = kSlowWorker + kLoss +
                             "{\"event\":\"switch\",\"from\":\"ssgd\",\"to\":\"asgd\",\"why\":"
                             "\"worker 1 <slow>\",\"requested_at\":20,\"in_force_after_s\":0}\n"}));
    const std::string picture = draw_run_lanes(read_runs({folder}), "lanes", 900);
    EXPECT_LT(picture.find(">worker 1</text>"), picture.find(">worker 0</text>"));
    EXPECT_THAT(picture, HasSubstr("<rect class=\"e3\""));
    EXPECT_THAT(picture, HasSubstr("worker 1, 2.00 to 40.00 s: 4.00 times as long as the fastest"));
    EXPECT_THAT(picture, HasSubstr("worker 1 lost at 3.0 s, joined again at 5.0 s: pid 7 &lt;"));
    EXPECT_THAT(picture, HasSubstr("20.00 s: ssgd to asgd; worker 1 &lt;slow&gt;"));
    EXPECT_THAT(picture, HasSubstr("<title>at the start</title>"));
    EXPECT_THAT(picture, HasSubstr(">40 % after 20.0 s</text>"));
}

/// Names of a page's squares whose class begins with the letter: of what lanes show, of causes.
std::vector<std::string> squares_of(const std::string& page, char letter) {
    const std::regex square(std::string("<rect class=\"") + letter +
                            "[0-9]\" width=\"22\" height=\"10\"/></svg>([^<]*)</li>");
    std::vector<std::string> names;
    for (std::sregex_iterator found(page.begin(), page.end(), square), end; found != end; ++found) {
        names.push_back((*found)[1]);
    }
    return names;
}

TEST_F(RunPage, LegendsHaveWhatThePicturesShow) {
    const std::string slow = page(
        {write("slow", test::run_lines({.windows = 40, .slowness = 4, .between = kSlowWorker}))});
    EXPECT_THAT(squares_of(slow, 'e'), ElementsAre("device"));
    EXPECT_THAT(squares_of(slow, 'k'),
                ElementsAre("computing", "transferring", "waiting for others"));
    EXPECT_THAT(slow, HasSubstr("A line above a lane"));
    const std::string even = page({write("even", test::run_lines({}))});
    EXPECT_THAT(squares_of(even, 'e'), IsEmpty());
    EXPECT_THAT(even, Not(HasSubstr("A line above a lane")));
}

TEST_F(RunPage, EveryCauseHasAColourOfItsOwn) {
    std::string episodes;
    for (const std::string_view cause : kWords<StragglerCause>) {
        std::string episode = kSlowWorker;
        episodes += episode.replace(episode.find("device"), 6, cause);
    }
    const std::string text =
        page({write("a", test::run_lines({.windows = 40, .between = episodes}))});
    EXPECT_THAT(squares_of(text, 'e'), ElementsAreArray(kWords<StragglerCause>));
    std::set<std::string> colours;
    for (std::size_t cause = 0; cause < kWords<StragglerCause>.size(); ++cause) {
        std::smatch fill;
        const std::regex of_cause("[.]e" + std::to_string(cause) +
                                  " [{] fill: var[(](--[a-z0-9]+)[)]; [}]");
        ASSERT_TRUE(std::regex_search(text, fill, of_cause)) << cause;
        EXPECT_TRUE(colours.insert(fill[1]).second) << fill[1] << " of cause " << cause;
    }
}

TEST_F(RunPage, IsWellFormedAndTakesNothingFromElsewhere) {
    const std::string a =
        write("a & <b>", test::run_lines({.windows = 30, .between = kSlowWorker + kLoss}));
    const std::string b = write("b", test::run_lines({.windows = 3, .summary = false}));
    const std::string text = page({a, b});
    EXPECT_EQ(test::unbalanced(text), "");
    const std::vector<std::string> ids = test::ids_of(text);
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "an id comes twice";
    EXPECT_THAT(text, Not(testing::ContainsRegex("<script|<link|<img|@import|https?:|src=")));
    EXPECT_THAT(text, HasSubstr("<a href=\"page.csv\">"));
    EXPECT_THAT(text, HasSubstr("revision abc123; mlp on cpu &amp; &lt;co&gt;; hosts node1"));
    EXPECT_THAT(text, HasSubstr("<code>cohort train --data d.h5</code>"));
}

/// Nothing on the page is wider than a phone: pictures shrink with their column, tables scroll in
/// their boxes, and no style gives a width in pixels beyond that.
TEST_F(RunPage, FitsAPhone) {
    const std::string text = page({write("a", test::run_lines({}))});
    EXPECT_THAT(text, HasSubstr("width=device-width"));
    EXPECT_THAT(text, HasSubstr("svg { display: block; width: 100%; height: auto; }"));
    const std::string narrow = text.substr(text.find("<div class=\"on-narrow\">"));
    EXPECT_THAT(narrow, HasSubstr("<svg viewBox=\"0 0 380 "));
    const std::regex wide(
        "(min-)?width: *([0-9]{3,}(px|pt)|(2[5-9]|[3-9][0-9]|[0-9]{3,})(rem|em))");
    const std::string styles = text.substr(0, text.find("</style>"));
    for (std::sregex_iterator found(styles.begin(), styles.end(), wide), end; found != end;
         ++found) {
        const std::string before = styles.substr(0, static_cast<std::size_t>(found->position()));
        EXPECT_TRUE(before.ends_with("max-") || before.ends_with(".wide svg { "))
            << found->str() << " after " << before.substr(before.size() - 40);
    }
    EXPECT_THAT(text, Not(HasSubstr("<div class=\"wide\">")));
    for (std::size_t table = text.find("<table"); table != std::string::npos;
         table = text.find("<table", table + 1)) {
        EXPECT_TRUE(text.substr(0, table).ends_with("\">")) << "a table outside a box";
        EXPECT_NE(text.rfind("<div class=\"scroll\"", table), std::string::npos);
    }
}

TEST_F(RunPage, TheNumbersBesideItAreThoseOfTheLines) {
    const std::string csv =
        run_columns_csv(read_runs({write("a", test::run_lines({.windows = 2}))}));
    EXPECT_THAT(csv, StartsWith(kRunColumnsStart));
    EXPECT_THAT(csv, HasSubstr("\na,test,,2,2,0.5,,,0.8,,,,,,,,,\n"));
    EXPECT_THAT(csv, HasSubstr("\na,worker,1,0,"));
    const auto commas = std::ranges::count(csv.substr(0, csv.find('\n')), ',');
    std::istringstream lines(csv);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_EQ(std::ranges::count(line, ','), commas) << line;
    }
}

TEST_F(RunPage, ARunThatComesTwiceIsRefusedAndEqualNamesAreToldApart) {
    std::filesystem::create_directory(folder_.file("other"));
    const std::string a = write("a", test::run_lines({}));
    const std::string b = write("other/a", test::run_lines({}));
    EXPECT_THAT(
        [&] {
            (void)read_runs({a, b, a + "/" + kMetricsFile});
        },
        ThrowsMessage<UsageError>(HasSubstr("the same run is given twice")));
    const std::vector<RunHistory> runs = read_runs({a, b});
    EXPECT_EQ(runs[0].label, a);
    EXPECT_EQ(runs[1].label, b);
}

}  // namespace
}  // namespace cohort
