#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "report/page/page.hpp"
#include "report/page/page_data.hpp"
#include "report/page/report_tables.hpp"
#include "report/page/svg.hpp"
#include "support/core/temp_folder.hpp"
#include "support/report/page_tags.hpp"
#include "support/report/report_results.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Page : public testing::Test {
protected:
    std::vector<std::string> modes_{"alpha", "beta", "gamma", "delta & co", "m4",
                                    "m5",    "m6",   "m7",    "m8"};
    TempFolder folder_;
    SweepResults results_ = make_test_sweep(folder_.path(), modes_);
};

TEST_F(Page, HasEveryModeEveryPatternEveryCommandAndNothingFromElsewhere) {
    const std::string page = report_html(results_);
    for (const std::string& mode : modes_) {
        EXPECT_THAT(page, HasSubstr("<th scope=\"row\">" + escaped(mode)));
    }
    EXPECT_THAT(page, HasSubstr("<th scope=\"col\">persistent:2</th>"));
    for (const RunRow& row : results_.rows) {
        EXPECT_THAT(page, HasSubstr("<code>" + escaped(row.command)));
    }
    EXPECT_THAT(page, HasSubstr("A sweep &amp; its &lt;results&gt;"));
    EXPECT_THAT(page, HasSubstr("a reason with &lt;angles&gt; &amp; &quot;quotes&quot;"));
    EXPECT_THAT(page, Not(testing::ContainsRegex("<script|<link|<img|@import|https?:|src=|href=")));
    EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
    EXPECT_EQ(page, report_html(results_)) << "it repeats exactly";
}

TEST_F(Page, IsWellFormed) {
    const std::string page = report_html(results_);
    EXPECT_EQ(test::unbalanced(page), "");
    const std::vector<std::string> ids = test::ids_of(page);
    EXPECT_GT(ids.size(), 10U);
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "an id comes twice";
}

TEST_F(Page, SaysWhatWasNotReachedAndMarksTheBest) {
    const std::string page = report_html(results_);
    EXPECT_THAT(page, HasSubstr("<span class=\"median\">not in 400k samples</span>"
                                "<span class=\"spread\">1 of 3, first 131</span>"));
    EXPECT_THAT(page, HasSubstr("★</abbr> <span class=\"median\">102</span>"
                                "<span class=\"spread\">101–103</span>"));
    EXPECT_THAT(page, HasSubstr("<span class=\"median\">alpha ×3</span>")) << "the oracle";
    EXPECT_THAT(page, HasSubstr("<span class=\"spread\">missed 2 of 3, alpha 0</span>"));
    results_.rows.pop_back();
    EXPECT_THAT(report_html(results_), HasSubstr("2 of 3 runs"));
}

TEST_F(Page, MarkdownHasTheSameNumbers) {
    const std::string text = report_markdown(results_);
    EXPECT_THAT(text, HasSubstr("**Time to the target** (virtual seconds; median of 3 seeds, "
                                "least–most)\n\n"
                                "| mode | healthy | persistent:2 |\n|---|---:|---:|\n"
                                "| alpha | **102** (101–103) | **102** (101–103) |\n"
                                "| beta | 112 (111–113) | not in 400k samples (1 of 3, first "
                                "131) |\n"));
    EXPECT_THAT(text, HasSubstr("the column `command` of results.csv"));
    EXPECT_THAT(text, HasSubstr("| *oracle* |  |  | alpha ×3 | alpha ×3 |"));
}

/// Of beta 111 / 101, 112 / 102, 113 / 103; then 131 / 101, 400 / 102 and 400 / 103, where 400 s
/// are the end of its budget.
TEST_F(Page, RatiosHaveTheirPartsIntervalsAndMisses) {
    EXPECT_THAT(
        report_markdown(results_),
        HasSubstr("**Against alpha** (time to the target relative to that of alpha, of the same "
                  "pattern and seed, less one: mean of 3 seeds with its 95 % interval; below it "
                  "the two parts of which it is made)\n\n"
                  "| mode | pace / ideal | all patterns | healthy | persistent:2 |\n"
                  "|---|---:|---:|---:|---:|\n"
                  "| alpha | 80 % | 1 | 1 | 1 |\n"
                  "| beta | 80 % | ≥ +72 % [+19, +108] (samples +72 % [+19, +108]; pace +0.0 % "
                  "[+0.0, +0.0]; missed 2 of 6, alpha 0) | +9.8 % [+9.7, +9.9] (samples +9.8 % "
                  "[+9.7, +9.9]; pace +0.0 % [+0.0, +0.0]) | ≥ +170 % [+30, +292] (samples +170 % "
                  "[+30, +292]; pace +0.0 % [+0.0, +0.0]; missed 2 of 3, alpha 0) |\n"));
}

TEST_F(Page, BeginsWithASentenceAndAPicture) {
    const std::string text = report_markdown(results_);
    EXPECT_THAT(text,
                StartsWith("gamma: time to the target 38 % [37, 38] above that of alpha over "
                           "2 patterns (samples +38 % [+37, +38], pace +0.0 % [+0.0, +0.0]), "
                           "above it on healthy (+20 % [+19, +20]), persistent:2 (+59 % "
                           "[+58, +59]); regret +38 % [+37, +38] in the median pattern, +59 % "
                           "[+58, +59] in the worst (persistent:2); not told apart from "
                           "beta.\n\nWith 3 seeds the intervals are too narrow; 25 are "
                           "wanted.\n\n**Against alpha**"));
    const std::string page = report_html(results_);
    const std::size_t sentence = page.find("<p class=\"verdict\">gamma: time to the target 38 %");
    const std::size_t picture = page.find("<title id=\"ratios-t\">");
    EXPECT_LT(sentence, picture);
    EXPECT_LT(picture, page.find("<table>"));
}

TEST_F(Page, TheSentenceNamesWhoIsFasterAndWhereItIsNot) {
    results_.modes[2].role = "";
    results_.modes[0].versus = true;
    results_.modes[3].reference = true;  // half as fast again as alpha, or more
    const std::string text = report_markdown(results_);
    EXPECT_THAT(text, StartsWith("alpha: time to the target"));
    EXPECT_THAT(text, HasSubstr("below that of delta & co over 2 patterns"));
    EXPECT_THAT(text, HasSubstr("), never above it on any; regret +0.0 % [+0.0, +0.0] in the "
                                "median pattern"));
    EXPECT_THAT(text, Not(HasSubstr("slower than"))) << "nobody is faster";
    results_.modes[0].versus = false;
    results_.modes[1].versus = true;
    results_.modes[3].reference = false;
    results_.modes[8].reference = true;
    EXPECT_THAT(report_markdown(results_),
                HasSubstr("), above it on persistent:2 (missed 2 of 3, m8 0); missed 2 of 6, m8 "
                          "0; regret"));
    EXPECT_THAT(report_markdown(results_), HasSubstr("; slower than alpha (missed 2 of 6, alpha"));
    results_.modes[1].versus = false;
    results_.modes[8].reference = false;
    results_.modes[4].versus = true;
    EXPECT_THAT(report_markdown(results_),
                HasSubstr("; slower than gamma (+26 % [+26, +26]), delta & co (+12 % [+11, +12]); "
                          "not told apart from beta."));
    EXPECT_THAT(report_markdown(results_), HasSubstr("**m4 against each** ("));
    EXPECT_EQ(test::unbalanced(report_html(results_)), "");
}

/// 3 modes x 2 patterns beside the reference; left is faster.
TEST_F(Page, ThePictureHasADotAndALineForEveryModeAndPattern) {
    SweepResults few = make_test_sweep(folder_.file("few"), {"alpha", "beta", "gamma"});
    few.modes[2].reference = true;
    const std::string picture = draw_ratios(read_page_data(few));
    std::size_t dots = 0;
    for (std::size_t at = picture.find("class=\"dot\""); at != std::string::npos;
         at = picture.find("class=\"dot\"", at + 1)) {
        ++dots;
    }
    EXPECT_EQ(dots, 2U * 2U);
    EXPECT_THAT(picture, HasSubstr("<title>alpha under healthy: -16 % [-17, -16]</title>"));
    EXPECT_THAT(picture, HasSubstr(">persistent:2</text>"));
    results_.rows.clear();
    EXPECT_EQ(draw_ratios(read_page_data(results_)), "");
}

TEST_F(Page, ASingleResultIsAPageToo) {
    const SweepResults single = results_of_files({results_.rows[0].file});
    const std::string page = report_html(single);
    EXPECT_THAT(page, HasSubstr("1 mode × 1 pattern × 1 seed: 1 of 1 runs are here."));
    EXPECT_THAT(page, HasSubstr("Workers under ssgd, healthy</title>"));
}

/// Writes a result and gives its file another name.
std::string write_named(const TempFolder& folder, const std::string& name,
                        const SimulateOptions& options, double tta_s) {
    write_result(folder.file("made"), make_test_result(options, tta_s));
    std::filesystem::rename(folder.file("made") + "/" + kResultFile, folder.file(name));
    return folder.file(name);
}

SimulateOptions single_options(const std::string& mode, double lr) {
    SimulateOptions options;
    options.data = "mine.h5";
    options.mode = mode;
    options.lr = lr;
    options.target_accuracy = 0.88;
    return options;
}

TEST_F(Page, ReadsTheVeryFilesThatWereNamed) {
    (void)write_named(folder_, "result.h5", single_options("ssgd", 0.05), 100);
    (void)write_named(folder_, "other.h5", single_options("asgd", 0.05), 300);
    EXPECT_EQ(results_of_files({folder_.file("other.h5")}).rows.at(0).file,
              folder_.file("other.h5"));
    const PageData data = read_page_data(results_of_files({folder_.file("other.h5")}));
    EXPECT_EQ(data.pictures[0][0].first.virtual_s, 300);
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path());
    const PageData bare = read_page_data(results_of_files({"result.h5", "other.h5"}));
    std::filesystem::current_path(before);
    EXPECT_EQ(bare.pictures[0][0].first.virtual_s, 100);
    EXPECT_EQ(bare.pictures[1][0].first.virtual_s, 300);
}

TEST_F(Page, SingleResultsAreARowPerSetOfOptions) {
    SimulateOptions more_seeds = single_options("ssgd", 0.05);
    more_seeds.seed = 2;
    SimulateOptions large = single_options("ssgd", 0.1);
    large.workers = 16;
    const std::vector<std::string> files{
        write_named(folder_, "a.h5", single_options("ssgd", 0.05), 100),
        write_named(folder_, "b.h5", more_seeds, 110), write_named(folder_, "c.h5", large, 120),
        write_named(folder_, "d.h5", single_options("asgd", 0.05), 130)};
    const SweepResults results = results_of_files(files);
    std::vector<std::string> names;
    for (const ExperimentMode& mode : results.modes) {
        names.push_back(mode.name);
    }
    EXPECT_THAT(names, ElementsAre("ssgd, workers=8, nodes=8, lr=0.05",
                                   "ssgd, workers=16, nodes=16, lr=0.1", "asgd"));
    const Comparison comparison = compare(results);
    EXPECT_EQ(comparison.cells[0][0].tta_s.runs, 2U) << "two seeds of one set of options";
    EXPECT_EQ(comparison.cells[0][0].tta_s.median, 105);
    EXPECT_EQ(comparison.cells[1][0].tta_s.median, 120);
}

TEST_F(Page, CurvesTakeTheLargerOfTwoEvaluationsAtOneMoment) {
    SimulationResult result = make_test_result(single_options("ssgd", 0.05), 100);
    result.evaluations = {{.virtual_s = 50, .accuracy = 0.85, .test_samples = 2000},
                          {.virtual_s = 60, .accuracy = 0.885, .test_samples = 2000},
                          {.virtual_s = 60, .accuracy = 0.87, .test_samples = 10000},
                          {.virtual_s = 100, .accuracy = 0.88, .test_samples = 10000}};
    write_result(folder_.file("two"), result);
    const SweepResults single = results_of_files({folder_.file("two/result.h5")});
    const PageData data = read_page_data(single);
    ASSERT_EQ(data.pictures[0][0].runs[0].evaluations.size(), 3U);
    EXPECT_EQ(data.pictures[0][0].runs[0].evaluations[1].accuracy, 0.87);
    EXPECT_THAT(report_html(single), HasSubstr("2,000 of 10,000 samples (--eval-samples)"));
    EXPECT_THAT(report_html(results_), Not(HasSubstr("--eval-samples")));
}

TEST_F(Page, OfARegressionR2IsShownInPlaceOfAccuracy) {
    SimulationResult result = make_test_result(single_options("ssgd", 0.05), 100);
    result.accuracy = std::nullopt;
    result.loss = 0.25;
    for (EvaluationPoint& point : result.evaluations) {
        point.accuracy = std::nullopt;
    }
    write_result(folder_.file("numbers"), result);
    const SweepResults single = results_of_files({folder_.file("numbers/result.h5")});
    EXPECT_EQ(single.rows[0].quality.value, 0.75);
    const std::string page = report_html(single);
    EXPECT_THAT(page, HasSubstr("R2 over virtual time"));
    EXPECT_THAT(page, HasSubstr("R2 at the end"));
    EXPECT_THAT(page, Not(HasSubstr("Accuracy")));
    EXPECT_THAT(report_html(results_), HasSubstr("Accuracy over virtual time"));
}

TEST_F(Page, NoResultCountsTwice) {
    const std::string file = write_named(folder_, "a.h5", single_options("ssgd", 0.05), 100);
    const std::string copy = folder_.file("copy.h5");
    std::filesystem::copy_file(file, copy);
    EXPECT_THROW((void)results_of_files({file, folder_.path() + "/./a.h5"}), UsageError);
    EXPECT_THROW((void)results_of_files({file, copy}), UsageError);
}

TEST_F(Page, LanesAreDrawnToScale) {
    const PageData data = read_page_data(results_);
    const std::string lanes = draw_lanes(data, 0, 0);
    EXPECT_THAT(lanes, HasSubstr("worker 3"));
    // 20 s on 822 units from 66 on: the slow worker's first compute is from 0.4 to 1.6 s.
    EXPECT_THAT(lanes, HasSubstr("M82.4 67h49.3v11H82.4z"));
    EXPECT_THAT(lanes, HasSubstr("asgd to ssgd"));
    EXPECT_THAT(lanes, HasSubstr("10.00 s: asgd to ssgd; a reason with &lt;angles&gt;"));
}

TEST_F(Page, DecisionsAreDrawnWithTheirReasonsAndOutcomes) {
    SimulationResult result = make_test_result(single_options("star-h", 0.05), 100);
    result.virtual_s = 822;  // a unit each
    result.decisions = {{.seconds = 100,
                         .chooser = "star-h",
                         .from = "star-h (ssgd)",
                         .to = "star-h (static:7)",
                         .reason = "worker 3 <slow>",
                         .candidates = {{.plan = "static:7", .samples_s = 5000, .rate = 200},
                                        {.plan = "asgd", .samples_s = 9000, .rate = 150}},
                         .held_s = 300,
                         .measured_samples_s = 4800},
                        {.seconds = 450,
                         .chooser = "star-h",
                         .from = "star-h (static:7)",
                         .to = "star-h (ssgd)",
                         .reason = "nobody",
                         .held_s = 372,
                         .measured_samples_s = 4000}};
    result.stragglers = {{.worker = 1,
                          .cause = StragglerCause::kBandwidth,
                          .begin_s = 90,
                          .end_s = 390,
                          .slowdown = 2}};
    write_result(folder_.file("decided"), result);
    const SweepResults single = results_of_files({folder_.file("decided/result.h5")});
    const PageData data = read_page_data(single);
    const std::string picture = draw_decisions(data, 0, 0);
    // From 66 on: ssgd for 100 s, static:7 for 300 s in another colour; somebody else has the say
    // for 50 s; ssgd.
    EXPECT_THAT(picture, HasSubstr("<g class=\"plan c0\"><title>ssgd at the start</title><rect "
                                   "x=\"66\""));
    EXPECT_THAT(picture, HasSubstr("<g class=\"plan c1\"><title>100.00 s: static:7; worker 3 "
                                   "&lt;slow&gt;; 5000 samples/s predicted; 4800 measured over "
                                   "300 s; next best: asgd (-25 %)</title><rect x=\"166\""));
    EXPECT_THAT(picture, HasSubstr("width=\"300.0\""));
    EXPECT_THAT(picture, HasSubstr("<rect class=\"e1\" x=\"156\""));
    EXPECT_THAT(picture, HasSubstr("worker 1, 90.00 to 390.00 s: 2.00 times as long as the "
                                   "fastest; bandwidth"));
    EXPECT_THAT(
        table_markdown(decisions_table("star-h", data.pictures[0][0].first.decisions)),
        HasSubstr("| star-h (static:7) | 100 | worker 3 <slow> | 5000 | 4800 | 300 | asgd "));
    const std::string page = report_html(single);
    EXPECT_THAT(page, HasSubstr("the bar below the lanes is the plan in force"));
    EXPECT_THAT(page, HasSubstr("<summary>Decisions of star-h</summary>"));
    EXPECT_THAT(report_html(results_), Not(HasSubstr("the bar below the lanes")));
    EXPECT_EQ(draw_decisions(read_page_data(results_), 0, 0), "");
}

TEST(Svg, TicksAreRoundAndInside) {
    EXPECT_THAT(round_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
    EXPECT_THAT(round_ticks(3, 17, 4), ElementsAre(5, 10, 15));
    EXPECT_THAT(
        round_ticks(0, 0.07, 4),
        ElementsAre(0, testing::DoubleEq(0.02), testing::DoubleEq(0.04), testing::DoubleEq(0.06)));
    EXPECT_TRUE(round_ticks(1, 1, 4).empty());
}

TEST(Svg, NumbersAreShort) {
    EXPECT_EQ(short_number(0), "0");
    EXPECT_EQ(short_number(0.1234), "0.123");
    EXPECT_EQ(short_number(1234), "1234");
    EXPECT_EQ(short_number(12345), "12.3k");
    EXPECT_EQ(short_number(1200000), "1.2M");
    EXPECT_EQ(short_number(999999), "1M");
    EXPECT_EQ(place(12), "12");
    EXPECT_EQ(place(-0.01), "0");
    EXPECT_EQ(escaped("a<b>&\"c\"\x01"), "a&lt;b&gt;&amp;&quot;c&quot;?");
}

}  // namespace
}  // namespace cohort
