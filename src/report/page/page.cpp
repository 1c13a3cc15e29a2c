#include "report/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/units.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/report_tables.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

/// With more modes the bands of a picture are faint.
constexpr std::size_t kFewModes = 5;

std::string title_of(const SweepResults& results) {
    return results.title.empty() ? "Modes compared" : results.title;
}

/// In HTML.
std::string listed(const std::vector<std::string>& names) {
    return escaped(fmt::format("{}", fmt::join(names, ", ")));
}

/// Facts of the sweep, and the number of finished runs.
std::string facts(const PageData& data) {
    const SweepResults& results = data.results;
    std::string text = fmt::format(
        "<p class=\"facts\">{} × {} × {}: {} of {} runs are here.",
        counted(results.modes.size(), "mode"), counted(results.patterns.size(), "pattern"),
        counted(results.seeds.size(), "seed"), results.rows.size(), results.planned);
    if (!results.rows.empty() && has_target(results.rows.front())) {
        const RunRow& row = results.rows.front();
        text += row.target_accuracy > 0
                    ? fmt::format(" The target is {} test accuracy", percent(row.target_accuracy))
                    : fmt::format(" The target is a test loss of {}", row.target_loss);
        if (row.budget_samples > 0) {
            text += fmt::format(", within {} samples",
                                short_number(static_cast<double>(row.budget_samples)));
        }
        text += ".";
    }
    if (!results.waiting.empty()) {
        text +=
            " Learning rates of these are still being chosen, and rows that they have are of an "
            "earlier choice: " +
            listed(results.waiting) + ".";
    }
    text += "</p>\n<details><summary>Options that all runs share</summary><p><code>";
    for (const auto& [name, value] : data.common) {
        text += fmt::format("{}={} ", escaped(name), escaped(value));
    }
    return text + "</code></p></details>\n";
}

/// The verdict: sentences and one picture.
std::string verdict_part(const PageData& data) {
    std::string text;
    for (const std::string& sentence : verdicts(data.results, data.comparison)) {
        text += "<p class=\"verdict\">" + escaped(sentence) + "</p>\n";
    }
    const std::string picture = draw_ratios(data);
    const std::string what = fmt::format(
        "{} relative to that of {}, by pattern: mean over the seeds and its 95 % interval. "
        "Left of 1 is faster.",
        data.comparison.has_target ? "Time to the target" : "Time for a sample",
        data.results.modes.empty() ? "" : data.results.modes[data.comparison.reference].name);
    return picture.empty() ? text
                           : text + "<div class=\"wide\">" + figure(picture, what) + "</div>\n";
}

std::string explanation(const PageData& data) {
    std::string text = "<p>Times are of the virtual cluster's clock.";
    if (data.comparison.has_target) {
        text +=
            " In ratios a run that missed the target counts as if it had reached it with the last "
            "sample of its budget, at its own pace, so a mode that misses is at least as slow as "
            "they say; cells say who missed how often. In medians it is infinitely slow. Time is "
            "samples over pace, so the logarithms of its two parts add up. Regret is against the "
            "fixed mode that is best on the other seeds of the pattern, never on the one that is "
            "compared.";
    }
    return text +
           " Intervals come from drawing whole seeds. A star marks the best median of a column "
           "once all its runs are there. The ideal pace is that of workers who wait for nobody "
           "(cohort simulate).</p>\n";
}

/// "the first 2,000 test samples" when some points use a part of the test set; else empty.
std::string subset_text(const PageData& data) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::int64_t most = 0;
    for (const auto& cells : data.pictures) {
        for (const CellPictures& cell : cells) {
            for (const RunPictures& run : cell.runs) {
                for (const EvaluationPoint& point : run.evaluations) {
                    least = std::min(least, point.test_samples);
                    most = std::max(most, point.test_samples);
                }
            }
        }
    }
    return least < most
               ? fmt::format(
                     " Points far below the target are of a fixed part of the test set, {} of "
                     "{} samples (--eval-samples), the others of all of it.",
                     format_count(static_cast<std::uint64_t>(least)),
                     format_count(static_cast<std::uint64_t>(most)))
               : "";
}

std::string curves_section(const PageData& data) {
    const bool any = std::ranges::any_of(data.pictures, [](const auto& cells) {
        return std::ranges::any_of(cells, [](const CellPictures& cell) {
            return std::ranges::any_of(
                cell.runs, [](const RunPictures& run) { return run.evaluations.size() > 1; });
        });
    });
    if (!any) {
        return "";
    }
    std::string text =
        "<section><h2>" + quality_name(data.results) +
        " over virtual time</h2>\n<p>Lines are medians over the seeds, bands "
        "go from the least to the most. A run that has ended keeps its last value. The time "
        "axis ends at four times the best median time to the target." +
        subset_text(data) + "</p>\n" + mode_legend(data) +
        fmt::format("<div class=\"grid-of{}\">\n",
                    data.results.modes.size() > kFewModes ? " many" : "");
    for (std::size_t pattern = 0; pattern < data.results.patterns.size(); ++pattern) {
        const std::string picture = draw_curves(data, pattern);
        if (!picture.empty()) {
            text += figure(picture, data.results.patterns[pattern]);
        }
    }
    return text + "</div></section>\n";
}

/// A box for every pattern; the first is open.
template <class Draw>
std::string by_pattern(const PageData& data, Draw draw) {
    std::string text;
    for (std::size_t pattern = 0; pattern < data.results.patterns.size(); ++pattern) {
        const std::string content = draw(pattern);
        if (!content.empty()) {
            text += fmt::format("<details{}><summary>{}</summary>\n{}</details>\n",
                                text.empty() ? " open=\"open\"" : "",
                                escaped(data.results.patterns[pattern]), content);
        }
    }
    return text;
}

std::string demands_section(const PageData& data) {
    return "<section><h2>What workers and servers need</h2>\n" +
           by_pattern(data, [&](std::size_t pattern) { return demand_table(data, pattern); }) +
           "</section>\n";
}

/// For a mode that chooses plans: the whole run, and its decisions in words.
std::string decisions_of(const PageData& data, std::size_t mode, std::size_t pattern) {
    const std::string picture = draw_decisions(data, mode, pattern);
    if (picture.empty()) {
        return "";
    }
    return "<div class=\"wide\">" + picture + "</div>\n<details><summary>Decisions of " +
           escaped(data.results.modes[mode].name) + "</summary>\n" +
           table_html(decisions_table(data.results.modes[mode].name + " under " +
                                          data.results.patterns[pattern] + ", first seed",
                                      data.pictures[mode][pattern].first.decisions)) +
           "</details>\n";
}

std::string lanes_section(const PageData& data) {
    const std::string all = by_pattern(data, [&](std::size_t pattern) {
        std::string text;
        for (std::size_t mode = 0; mode < data.results.modes.size(); ++mode) {
            const std::string picture = draw_lanes(data, mode, pattern);
            if (!picture.empty()) {
                text += "<div class=\"wide\">" + picture + "</div>\n";
            }
            text += decisions_of(data, mode, pattern);
        }
        return text;
    });
    if (all.empty()) {
        return "";
    }
    const bool decided = all.find("class=\"plan ") != std::string::npos;
    return "<section><h2>What workers did</h2>\n<p>A stretch of the first seed's run around the "
           "first change of mode, or else around the longest single step or wait. Broken lines "
           "mark changes of mode.</p>\n" +
           lane_legend(all) +
           (decided
                ? "<p>Where a chooser decides, the bar below the lanes is the plan in force, "
                  "and a second picture shows the whole run: who was a straggler when, coloured "
                  "by what explains it, and the plans.</p>\n" +
                      cause_legend(all)
                : "") +
           all + "</section>\n";
}

std::string lags_section(const PageData& data) {
    const std::string all = by_pattern(data, [&](std::size_t pattern) {
        const std::string picture = draw_lags(data, pattern);
        return picture.empty() ? picture : "<div class=\"narrow\">" + picture + "</div>\n";
    });
    if (all.empty()) {
        return "";
    }
    return "<section><h2>How late gradients came</h2>\n<p>Lag is the reference batches that were "
           "applied between a worker's start and the moment when its gradient was used. Bars are "
           "scaled to the tallest of each row.</p>\n" +
           all + "</section>\n";
}

std::string tuning_section(const PageData& data) {
    if (data.results.tuning.empty()) {
        return "";
    }
    const std::vector<std::string> edge = modes_at_edge(data.results);
    return "<section><h2>How learning rates were chosen</h2>\n" +
           (edge.empty()
                ? ""
                : "<p>At the end of the list that was tried, so that a longer one may have "
                  "a better rate: " +
                      listed(edge) + ".</p>\n") +
           "<details><summary>The search</summary>\n" + tuning_table(data) +
           "</details></section>\n";
}

}  // namespace

std::string figure(const std::string& picture, const std::string& caption) {
    return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", picture,
                       escaped(caption));
}

std::string html_page(const std::string& title, const std::string& body) {
    return kPageStart +
           std::string(
               "<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta "
               "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>") +
           escaped(title) + "</title>\n<style>" + std::string(page_styles().front().bytes) +
           "</style></head>\n<body><main>\n" + body + "</main></body></html>\n";
}

std::string report_html(const SweepResults& results) {
    const PageData data = read_page_data(results);
    const std::string title = title_of(results);
    return html_page(title, "<h1>" + escaped(title) + "</h1>\n" + verdict_part(data) + facts(data) +
                                "<section><h2>Results</h2>\n" + explanation(data) +
                                result_tables(data) + "<h3>The command of every run</h3>\n" +
                                command_lists(data) + "</section>\n" + curves_section(data) +
                                demands_section(data) + lanes_section(data) + lags_section(data) +
                                tuning_section(data));
}

}  // namespace cohort
