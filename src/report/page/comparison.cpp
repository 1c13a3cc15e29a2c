#include "cohort/report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "report/page/ratios.hpp"

namespace cohort {
namespace {

/// The number of a measure in every row that has it.
template <class Get>
Spread spread_over(const std::vector<RunRow>& rows, Get get) {
    std::vector<double> values;
    for (const RunRow& row : rows) {
        if (const std::optional<double> value = get(row)) {
            values.push_back(*value);
        }
    }
    return spread_of(values);
}

void measure(ComparedCell& cell) {
    using Number = std::optional<double>;
    cell.tta_s = spread_over(cell.rows, [](const RunRow& row) {
        constexpr double kNever = std::numeric_limits<double>::infinity();
        return has_target(row) ? Number(row.tta_virtual_s.value_or(kNever)) : Number();
    });
    cell.accuracy =
        spread_over(cell.rows, [](const RunRow& row) { return Number(row.quality.value); });
    cell.samples_per_s =
        spread_over(cell.rows, [](const RunRow& row) { return Number(row.samples_per_s); });
    cell.of_ideal = spread_over(cell.rows, [](const RunRow& row) {
        return row.ideal_samples_per_s ? Number(row.samples_per_s / *row.ideal_samples_per_s)
                                       : Number();
    });
}

std::vector<std::size_t> judged_modes(const SweepResults& results, const Comparison& comparison) {
    const auto all_but_reference = [&](const auto& wanted) {
        std::vector<std::size_t> modes;
        for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
            if (mode != comparison.reference && wanted(results.modes[mode])) {
                modes.push_back(mode);
            }
        }
        return modes;
    };
    std::vector<std::size_t> judged =
        all_but_reference([](const ExperimentMode& mode) { return mode.versus; });
    if (judged.empty()) {
        judged = all_but_reference([](const ExperimentMode& mode) { return mode.role == "ours"; });
    }
    if (judged.empty()) {
        judged = all_but_reference([](const ExperimentMode& /*mode*/) { return true; });
        std::erase_if(
            judged, [&](std::size_t mode) { return comparison.to_reference[mode].all.pairs == 0; });
        const auto best = std::ranges::min_element(judged, {}, [&](std::size_t mode) {
            return comparison.to_reference[mode].all.tta.value;
        });
        judged = best == judged.end() ? judged : std::vector{*best};
    }
    return judged;
}

void compare_pairs(const SweepResults& results, Comparison& comparison) {
    const RunPairs pairs(results, comparison.has_target);
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        comparison.to_reference.push_back(pairs.duel(mode, comparison.reference));
    }
    comparison.judged = judged_modes(results, comparison);
    for (const std::size_t mode : comparison.judged) {
        for (std::size_t other = 0; other < results.modes.size(); ++other) {
            if (other != mode) {
                comparison.duels.push_back(pairs.duel(mode, other));
            }
        }
    }
    const OracleChoices oracle = pairs.choose_oracle();
    for (const auto& choices : oracle) {
        std::vector<std::string>& names = comparison.oracle.emplace_back();
        for (const std::optional<std::size_t>& mode : choices) {
            names.push_back(mode ? results.modes[*mode].name : "");
        }
    }
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        comparison.regrets.push_back(pairs.regret(mode, oracle));
    }
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
    if (values.empty()) {
        return {};
    }
    const auto [least, most] = std::ranges::minmax_element(values);
    return {.runs = values.size(),
            .finite = static_cast<std::size_t>(
                std::ranges::count_if(values, [](double value) { return std::isfinite(value); })),
            .median = median(values),
            .least = *least,
            .most = *most};
}

Comparison compare(const SweepResults& results) {
    Comparison comparison;
    for (const ExperimentMode& mode : results.modes) {
        std::vector<ComparedCell> cells;
        for (const std::string& pattern : results.patterns) {
            ComparedCell cell;
            for (const RunRow& row : results.rows) {
                if (row.mode == mode.name && row.pattern == pattern) {
                    cell.rows.push_back(row);
                    comparison.has_target = comparison.has_target || has_target(row);
                }
            }
            measure(cell);
            cells.push_back(std::move(cell));
        }
        if (mode.reference) {
            comparison.reference = comparison.cells.size();
        }
        comparison.cells.push_back(std::move(cells));
    }
    for (std::size_t pattern = 0; pattern < results.patterns.size(); ++pattern) {
        comparison.complete.push_back(std::ranges::all_of(comparison.cells, [&](const auto& cells) {
            return cells[pattern].rows.size() == results.seeds.size();
        }));
    }
    if (!results.modes.empty()) {
        compare_pairs(results, comparison);
    }
    return comparison;
}

double median_of(const ComparedCell& cell, double RunRow::*number) {
    return spread_over(cell.rows,
                       [number](const RunRow& row) { return std::optional(row.*number); })
        .median;
}

bool is_best(const Comparison& comparison, Spread ComparedCell::*measure, std::size_t mode,
             std::size_t pattern) {
    const Spread& own = comparison.cells[mode][pattern].*measure;
    if (!comparison.complete[pattern] || own.runs == 0 || !std::isfinite(own.median)) {
        return false;
    }
    const bool least = measure == &ComparedCell::tta_s;
    return std::ranges::all_of(comparison.cells, [&](const auto& cells) {
        const Spread& other = cells[pattern].*measure;
        return other.runs == 0 || (least ? own.median <= other.median : own.median >= other.median);
    });
}

}  // namespace cohort
