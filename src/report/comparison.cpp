#include "cohort/report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cohort/core/statistics.hpp"

namespace cohort {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double tta_of(const RunRow& row) {
    return row.tta_virtual_s.value_or(kNever);
}

bool has_target(const RunRow& row) {
    return row.target_accuracy > 0;
}

/// The number of a measure in every row, or in those with a target alone.
template <class Get>
Spread spread_over(const std::vector<RunRow>& rows, bool aimed, Get get) {
    std::vector<double> values;
    for (const RunRow& row : rows) {
        if (!aimed || has_target(row)) {
            values.push_back(get(row));
        }
    }
    return spread_of(values);
}

void measure(ComparedCell& cell) {
    cell.aimed =
        static_cast<std::size_t>(std::count_if(cell.rows.begin(), cell.rows.end(), has_target));
    cell.tta_s = spread_over(cell.rows, true, tta_of);
    cell.samples_to_target = spread_over(cell.rows, true, [](const RunRow& row) {
        return row.samples_to_target ? static_cast<double>(*row.samples_to_target) : kNever;
    });
    cell.accuracy = spread_over(cell.rows, false, [](const RunRow& row) { return row.accuracy; });
    cell.samples_per_s =
        spread_over(cell.rows, false, [](const RunRow& row) { return row.samples_per_s; });
}

const RunRow* find_row(const ComparedCell& cell, const ExperimentSeed& seed) {
    const auto found = std::find_if(cell.rows.begin(), cell.rows.end(),
                                    [&seed](const RunRow& row) { return row.seed == seed; });
    return found == cell.rows.end() ? nullptr : &*found;
}

/// The fastest run of a fixed mode under a pattern with a seed; none: there are no fixed modes with
/// a target, or one of their runs is missing and could be the fastest.
struct OracleRun {
    double tta_s = kNever;
    std::string mode;
};

std::optional<OracleRun> oracle_run(const SweepResults& results, Comparison& comparison,
                                    std::size_t pattern, const ExperimentSeed& seed) {
    std::optional<OracleRun> best;
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        if (!results.modes[mode].fixed) {
            continue;
        }
        const RunRow* row = find_row(comparison.cells[mode][pattern], seed);
        if (row == nullptr) {
            ++comparison.oracle[pattern].waiting;
            return std::nullopt;
        }
        if (!has_target(*row)) {
            continue;
        }
        best = best ? best : OracleRun();
        if (tta_of(*row) < best->tta_s) {
            best = OracleRun{.tta_s = tta_of(*row), .mode = row->mode};
        }
    }
    return best;
}

/// A run's time relative to another one's, less one; none where neither reached the target.
std::optional<double> relative(const RunRow& row, double other_tta_s) {
    if (std::isfinite(other_tta_s)) {
        return tta_of(row) / other_tta_s - 1;
    }
    return row.tta_virtual_s ? std::optional(-1.0) : std::nullopt;
}

/// Oracle and regrets of one pattern.
void look_back(const SweepResults& results, Comparison& comparison, std::size_t pattern,
               std::vector<std::vector<double>>& all_regrets) {
    std::vector<double> times;
    std::vector<std::vector<double>> regrets(results.modes.size());
    for (const ExperimentSeed& seed : results.seeds) {
        const std::optional<OracleRun> oracle = oracle_run(results, comparison, pattern, seed);
        if (!oracle) {
            continue;
        }
        times.push_back(oracle->tta_s);
        comparison.oracle[pattern].choices.push_back(oracle->mode);
        for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
            const RunRow* row = find_row(comparison.cells[mode][pattern], seed);
            if (row != nullptr && has_target(*row)) {
                if (const std::optional<double> regret = relative(*row, oracle->tta_s)) {
                    regrets[mode].push_back(*regret);
                }
            }
        }
    }
    comparison.oracle[pattern].tta_s = spread_of(times);
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        comparison.cells[mode][pattern].regret = spread_of(regrets[mode]);
        comparison.pairs[mode] += comparison.cells[mode][pattern].aimed;
        all_regrets[mode].insert(all_regrets[mode].end(), regrets[mode].begin(),
                                 regrets[mode].end());
    }
}

Duel duel(const SweepResults& results, const Comparison& comparison, std::size_t mode,
          std::size_t other) {
    Duel found{.mode = mode, .other = other, .by_pattern = {}, .all = {}, .slow = {}};
    std::vector<double> all;
    std::vector<double> slow;
    for (std::size_t pattern = 0; pattern < results.patterns.size(); ++pattern) {
        std::vector<double> here;
        for (const RunRow& row : comparison.cells[mode][pattern].rows) {
            const RunRow* against = find_row(comparison.cells[other][pattern], row.seed);
            if (against != nullptr && has_target(row) && has_target(*against)) {
                if (const auto pair = relative(row, tta_of(*against))) {
                    here.push_back(*pair);
                }
            }
        }
        found.by_pattern.push_back(spread_of(here));
        all.insert(all.end(), here.begin(), here.end());
        if (results.patterns[pattern] != kHealthyPattern) {
            slow.insert(slow.end(), here.begin(), here.end());
        }
    }
    found.all = spread_of(all);
    found.slow = spread_of(slow);
    return found;
}

std::vector<Duel> all_duels(const SweepResults& results, const Comparison& comparison) {
    std::vector<Duel> duels;
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        for (std::size_t other = 0; other < results.modes.size(); ++other) {
            if (results.modes[mode].versus && other != mode) {
                duels.push_back(duel(results, comparison, mode, other));
            }
        }
    }
    return duels;
}

bool leads(const Comparison& comparison, Spread ComparedCell::*measure, std::size_t mode,
           std::size_t pattern, bool least) {
    const Spread& own = comparison.cells[mode][pattern].*measure;
    if (!comparison.complete[pattern] || own.runs == 0 || !std::isfinite(own.median)) {
        return false;
    }
    return std::all_of(comparison.cells.begin(), comparison.cells.end(), [&](const auto& cells) {
        const Spread& other = cells[pattern].*measure;
        return other.runs == 0 || (least ? own.median <= other.median : own.median >= other.median);
    });
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
    if (values.empty()) {
        return {};
    }
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return {.runs = values.size(),
            .finite = static_cast<std::size_t>(std::count_if(
                values.begin(), values.end(), [](double value) { return std::isfinite(value); })),
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
    comparison.oracle.resize(results.patterns.size());
    comparison.pairs.resize(results.modes.size());
    for (std::size_t pattern = 0; pattern < results.patterns.size(); ++pattern) {
        comparison.complete.push_back(std::all_of(
            comparison.cells.begin(), comparison.cells.end(),
            [&](const auto& cells) { return cells[pattern].rows.size() == results.seeds.size(); }));
    }
    std::vector<std::vector<double>> regrets(results.modes.size());
    for (std::size_t pattern = 0; pattern < results.patterns.size(); ++pattern) {
        look_back(results, comparison, pattern, regrets);
    }
    for (const std::vector<double>& of_mode : regrets) {
        comparison.regret.push_back(spread_of(of_mode));
    }
    comparison.duels = all_duels(results, comparison);
    return comparison;
}

double median_of(const ComparedCell& cell, double RunRow::*number) {
    return spread_over(cell.rows, false, [number](const RunRow& row) { return row.*number; })
        .median;
}

bool is_least(const Comparison& comparison, Spread ComparedCell::*measure, std::size_t mode,
              std::size_t pattern) {
    return leads(comparison, measure, mode, pattern, true);
}

bool is_most(const Comparison& comparison, Spread ComparedCell::*measure, std::size_t mode,
             std::size_t pattern) {
    return leads(comparison, measure, mode, pattern, false);
}

}  // namespace cohort
