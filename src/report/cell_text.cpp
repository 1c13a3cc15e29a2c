#include "cell_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cohort/core/units.hpp"
#include "svg.hpp"

namespace cohort {
namespace {

/// "not in 1.2M samples": the budget that was not enough; or that the runs diverged.
std::string not_reached(const ComparedCell& cell) {
    std::int64_t samples = 0;
    bool diverged = true;
    for (const RunRow& row : cell.rows) {
        if (!row.tta_virtual_s && row.target_accuracy > 0) {
            samples = std::max(samples, row.samples);
            diverged = diverged && row.stop_reason == "diverged";
        }
    }
    return diverged ? "diverged"
                    : fmt::format("not in {} samples", short_number(static_cast<double>(samples)));
}

/// From least to most, and how many runs did not get there.
std::string spread_text(const Spread& spread, std::string (*format)(double)) {
    if (spread.runs < 2) {
        return "";
    }
    if (spread.finite == 0) {
        return fmt::format("none of {}", spread.runs);
    }
    if (spread.finite < spread.runs) {
        return fmt::format("{} of {}, first {}", spread.finite, spread.runs, format(spread.least));
    }
    std::string least = format(spread.least);
    const std::string most = format(spread.most);
    if (least.ends_with(" %") && most.ends_with(" %")) {
        least.resize(least.size() - 2);
    }
    return fmt::format("{}–{}", least, most);
}

/// How many pairs of pattern and seed count, when not all do.
void add_pairs(CellText& text, std::size_t counted, std::size_t all) {
    if (counted < all) {
        text.spread +=
            fmt::format("{}{} of {} pairs", text.spread.empty() ? "" : "; ", counted, all);
    }
}

/// 0.88 -> "88.0 %".
std::string accuracy_text(double share) {
    return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace

std::vector<Measure> measures_of(const Comparison& comparison) {
    std::vector<Measure> measures;
    if (comparison.has_target) {
        measures.push_back({.title = "Time to the target",
                            .unit = "virtual seconds",
                            .spread = &ComparedCell::tta_s,
                            .format = seconds_text});
        measures.push_back({.title = "Regret",
                            .unit = "time to the target relative to the oracle's, less one",
                            .spread = &ComparedCell::regret,
                            .format = signed_percent});
        measures.push_back({.title = "Samples to the target",
                            .unit = "samples applied",
                            .spread = &ComparedCell::samples_to_target,
                            .format = short_number});
    }
    const bool learned =
        std::any_of(comparison.cells.begin(), comparison.cells.end(), [](const auto& cells) {
            return std::any_of(cells.begin(), cells.end(),
                               [](const auto& cell) { return cell.accuracy.most > 0; });
        });
    if (learned) {
        measures.push_back({.title = "Accuracy at the end",
                            .unit = "whole test set",
                            .spread = &ComparedCell::accuracy,
                            .format = accuracy_text,
                            .better = Better::kMore});
    }
    measures.push_back({.title = "Samples per second",
                        .unit = "of virtual time",
                        .spread = &ComparedCell::samples_per_s,
                        .format = short_number,
                        .better = Better::kMore});
    return measures;
}

CellText cell_text(const Comparison& comparison, const Measure& measure, std::size_t mode,
                   std::size_t pattern, std::size_t seeds) {
    const ComparedCell& cell = comparison.cells[mode][pattern];
    const Spread& spread = cell.*measure.spread;
    CellText text;
    if (spread.runs == 0) {
        text.median = cell.rows.empty() ? "no run yet"
                      : cell.aimed == 0 ? "no target"
                                        : "no oracle";
        return text;
    }
    text.never = !std::isfinite(spread.median);
    text.median = text.never ? not_reached(cell) : measure.format(spread.median);
    text.spread = spread_text(spread, measure.format);
    if (measure.spread == &ComparedCell::regret) {
        add_pairs(text, spread.runs, cell.aimed);
    }
    if (cell.rows.size() < seeds) {
        text.spread += fmt::format("{}{} of {} runs", text.spread.empty() ? "" : "; ",
                                   cell.rows.size(), seeds);
    }
    text.best = measure.better == Better::kLess
                    ? is_least(comparison, measure.spread, mode, pattern)
                    : is_most(comparison, measure.spread, mode, pattern);
    return text;
}

CellText oracle_text(const OracleCell& oracle) {
    CellText text;
    if (oracle.tta_s.runs == 0) {
        text.median = oracle.waiting > 0 ? "runs are missing" : "no fixed mode";
        return text;
    }
    text.never = !std::isfinite(oracle.tta_s.median);
    text.median = text.never ? "not reached" : seconds_text(oracle.tta_s.median);
    text.spread = spread_text(oracle.tta_s, seconds_text);
    return text;
}

CellText regret_text(const Comparison& comparison, std::size_t mode) {
    const Spread& regret = comparison.regret[mode];
    CellText text;
    if (regret.runs == 0) {
        text.median = "no oracle";
        return text;
    }
    const auto words = [](double value) {
        return std::isfinite(value) ? signed_percent(value) : std::string("not reached");
    };
    text.never = !std::isfinite(regret.median);
    text.median = words(regret.median);
    text.spread = "worst " + words(regret.most);
    add_pairs(text, regret.runs, comparison.pairs[mode]);
    const bool complete = std::all_of(comparison.complete.begin(), comparison.complete.end(),
                                      [](bool all) { return all; });
    text.best = complete && !text.never &&
                std::all_of(comparison.regret.begin(), comparison.regret.end(),
                            [&regret](const Spread& other) {
                                return other.runs == 0 || regret.median <= other.median;
                            });
    return text;
}

namespace {

/// Whether some patterns, but not all, have slow workers: then they are told apart.
bool has_slow_ones(const std::vector<std::string>& patterns) {
    const auto healthy = std::count(patterns.begin(), patterns.end(), kHealthyPattern);
    return healthy > 0 && static_cast<std::size_t>(healthy) < patterns.size();
}

CellText duel_text(const Spread& spread) {
    CellText text;
    if (spread.runs == 0) {
        text.median = "no pair";
        return text;
    }
    text.never = !std::isfinite(spread.median);
    text.median = text.never ? "not reached" : signed_percent(spread.median);
    text.spread = spread_text(spread, signed_percent);
    return text;
}

}  // namespace

std::vector<std::string> duel_columns(const std::vector<std::string>& patterns) {
    std::vector<std::string> columns{"all patterns"};
    if (has_slow_ones(patterns)) {
        columns.push_back(fmt::format("all but {}", kHealthyPattern));
    }
    columns.insert(columns.end(), patterns.begin(), patterns.end());
    return columns;
}

std::vector<CellText> duel_cells(const Duel& duel, const std::vector<std::string>& patterns) {
    std::vector<CellText> cells{duel_text(duel.all)};
    if (has_slow_ones(patterns)) {
        cells.push_back(duel_text(duel.slow));
    }
    for (const Spread& spread : duel.by_pattern) {
        cells.push_back(duel_text(spread));
    }
    return cells;
}

std::string choices_text(const OracleCell& oracle) {
    std::vector<std::pair<std::size_t, std::string>> counts;
    for (const std::string& choice : oracle.choices) {
        const auto found = std::find_if(counts.begin(), counts.end(),
                                        [&](const auto& entry) { return entry.second == choice; });
        if (choice.empty()) {
            continue;
        }
        if (found == counts.end()) {
            counts.emplace_back(1, choice);
        } else {
            ++found->first;
        }
    }
    std::stable_sort(counts.begin(), counts.end(),
                     [](const auto& one, const auto& other) { return one.first > other.first; });
    std::string text;
    for (const auto& [count, choice] : counts) {
        text += fmt::format("{}{} ×{}", text.empty() ? "" : ", ", choice, count);
    }
    return text;
}

std::string seconds_text(double seconds) {
    constexpr double kTenths = 9.995;
    constexpr double kWhole = 99.95;
    return seconds < kTenths  ? fmt::format("{:.2f}", seconds)
           : seconds < kWhole ? fmt::format("{:.1f}", seconds)
                              : format_count(static_cast<std::uint64_t>(std::llround(seconds)));
}

std::string percent(double share) {
    const std::string text = fmt::format("{:.1f}", 100 * share);
    return (text.ends_with(".0") ? text.substr(0, text.size() - 2) : text) + " %";
}

std::string signed_percent(double share) {
    constexpr double kMany = 10;
    if (share >= kMany) {
        return fmt::format("×{:.0f}", share + 1);
    }
    const std::string text = fmt::format("{:+.0f} %", 100 * share);
    return text == "-0 %" ? "+0 %" : text;
}

}  // namespace cohort
