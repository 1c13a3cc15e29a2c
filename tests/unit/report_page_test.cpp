#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cohort/report/page.hpp"
#include "page_data.hpp"
#include "support/report_results.hpp"
#include "support/temp_folder.hpp"
#include "svg.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// The insides of all tags of a page, in order.
std::vector<std::string> tags_of(const std::string& page) {
    std::vector<std::string> tags;
    for (std::size_t begin = page.find('<'); begin != std::string::npos;
         begin = page.find('<', begin + 1)) {
        tags.push_back(page.substr(begin + 1, page.find('>', begin) - begin - 1));
    }
    return tags;
}

/// The first tag that is not closed, or closes another one; empty for a page that is well formed.
std::string unbalanced(const std::string& page) {
    std::vector<std::string> open;
    for (const std::string& tag : tags_of(page)) {
        const bool closing = tag.starts_with("/");
        const std::string name = tag.substr(closing ? 1 : 0, tag.find_first_of(" /\n", 1));
        if (closing && (open.empty() || open.back() != name)) {
            return tag;
        }
        if (closing) {
            open.pop_back();
        } else if (!tag.ends_with("/") && !tag.starts_with("!")) {
            open.push_back(name);
        }
    }
    return open.empty() ? "" : open.back();
}

std::vector<std::string> ids_of(const std::string& page) {
    std::vector<std::string> ids;
    for (const std::string& tag : tags_of(page)) {
        if (const std::size_t found = tag.find(" id=\""); found != std::string::npos) {
            ids.push_back(tag.substr(found + 5, tag.find('"', found + 5) - found - 5));
        }
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

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
    EXPECT_EQ(unbalanced(page), "");
    const std::vector<std::string> ids = ids_of(page);
    EXPECT_GT(ids.size(), 10U);
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "an id comes twice";
}

TEST_F(Page, SaysWhatWasNotReachedAndMarksTheBest) {
    const std::string page = report_html(results_);
    EXPECT_THAT(page, HasSubstr("<span class=\"median\">not in 400k samples</span>"
                                "<span class=\"spread\">1 of 3, first 131</span>"));
    EXPECT_THAT(page, HasSubstr("★</abbr> <span class=\"median\">102</span>"
                                "<span class=\"spread\">101–103</span>"));
    EXPECT_THAT(page, HasSubstr("<span class=\"spread\">101–103; alpha ×3</span>")) << "the oracle";
    results_.rows.pop_back();
    EXPECT_THAT(report_html(results_), HasSubstr("2 of 3 runs"));
}

TEST_F(Page, MarkdownHasTheSameNumbers) {
    EXPECT_THAT(report_markdown(results_),
                HasSubstr("**Time to the target** (virtual seconds): median of 3 seed(s) "
                          "(least–most)\n\n"
                          "| mode | healthy | persistent:2 |\n|---|---:|---:|\n"
                          "| alpha | **102** (101–103) | **102** (101–103) |\n"
                          "| beta | 112 (111–113) | not in 400k samples (1 of 3, first 131) |\n"));
    EXPECT_THAT(report_markdown(results_),
                HasSubstr("| *oracle* | 102 (alpha ×3) | 102 (alpha ×3) |"));
}

TEST_F(Page, ASingleResultIsAPageToo) {
    const SweepResults single = results_of_files({results_.rows[0].folder + "/result.h5"});
    const std::string page = report_html(single);
    EXPECT_THAT(page, HasSubstr("1 mode × 1 pattern × 1 seed: 1 of 1 runs are here."));
    EXPECT_THAT(page, HasSubstr("Workers under ssgd, healthy</title>"));
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
