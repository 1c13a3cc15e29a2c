#include "report/page/report_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "report/page/cell_text.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

/// "not in 1.2M samples", with the budget of the runs; or a text that the runs diverged.
std::string not_reached(const ComparedCell& cell) {
    std::int64_t samples = 0;
    bool diverged = true;
    for (const RunRow& row : cell.rows) {
        if (!row.tta_virtual_s && has_target(row)) {
            samples = std::max(samples, row.samples);
            diverged = diverged && row.stop_reason == "diverged";
        }
    }
    return diverged ? "diverged"
                    : fmt::format("not in {} samples", short_number(static_cast<double>(samples)));
}

/// 0.88 -> "88.0 %".
std::string accuracy_text(double share) {
    return fmt::format("{:.1f} %", 100 * share);
}

/// Minimum and maximum, and the number of runs that missed the target.
std::string spread_text(const Spread& spread, std::string (*format)(double)) {
    if (spread.finite == 0) {
        return fmt::format("none of {}", spread.runs);
    }
    if (spread.finite < spread.runs) {
        return fmt::format("{} of {}, first {}", spread.finite, spread.runs, format(spread.least));
    }
    std::string least = format(spread.least);
    if (least.ends_with(" %")) {
        least.resize(least.size() - 2);
    }
    return fmt::format("{}–{}", least, format(spread.most));
}

class Tables {
public:
    Tables(const SweepResults& results, const Comparison& comparison)
        : results_(results), comparison_(comparison), seeds_(results.seeds.size()) {}

    [[nodiscard]] std::vector<ReportTable> all() const {
        std::vector<ReportTable> tables;
        if (results_.modes.size() > 1) {
            tables.push_back(against_reference());
            if (std::ranges::any_of(comparison_.regrets,
                                    [](const Regret& regret) { return regret.patterns > 0; })) {
                tables.push_back(regrets());
            }
            for (const std::size_t mode : comparison_.judged) {
                tables.push_back(against_each(mode));
            }
        }
        if (comparison_.has_target) {
            tables.push_back(measures("Time to the target", "virtual seconds", &ComparedCell::tta_s,
                                      seconds_text));
        }
        if (learned()) {
            tables.push_back(measures(quality_name(results_) + " at the end", "whole test set",
                                      &ComparedCell::accuracy, accuracy_text));
        }
        tables.push_back(measures("Samples per second",
                                  "of virtual time; below it the share of the ideal pace",
                                  &ComparedCell::samples_per_s, short_number));
        return tables;
    }

private:
    [[nodiscard]] bool learned() const {
        return std::ranges::any_of(comparison_.cells, [](const auto& cells) {
            return std::ranges::any_of(cells,
                                       [](const auto& cell) { return cell.accuracy.most > 0; });
        });
    }

    [[nodiscard]] ReportTable::Row row_of(std::size_t mode) const {
        const ExperimentMode& entry = results_.modes[mode];
        return {.name = entry.name, .note = entry.role == "ours" ? "ours" : "", .cells = {}};
    }

    [[nodiscard]] std::vector<std::string> columns(std::vector<std::string> names) const {
        names.insert(names.end(), results_.patterns.begin(), results_.patterns.end());
        return names;
    }

    [[nodiscard]] std::string seeds_text() const {
        return fmt::format("{} seed{}", seeds_, seeds_ == 1 ? "" : "s");
    }

    // Ratios.

    [[nodiscard]] CellText ratio_cell(const Ratio& ratio, const std::string& other) const {
        if (ratio.pairs == 0) {
            return {.main = "no pair", .never = true};
        }
        const bool intervals = seeds_ > 1;
        if (!comparison_.has_target) {
            return {.main = change_text(ratio.pace, intervals)};
        }
        // A miss counts with the least time that it can have needed.
        const std::string bound = ratio.misses > 0 && ratio.other_misses == 0   ? "≥ "
                                  : ratio.misses == 0 && ratio.other_misses > 0 ? "≤ "
                                                                                : "";
        CellText text{.main = bound + change_text(ratio.tta, intervals),
                      .below = {"samples " + change_text(ratio.samples, intervals),
                                "pace " + change_text(ratio.pace, intervals)}};
        if (const std::string misses = misses_text(ratio, other); !misses.empty()) {
            text.below.push_back(misses);
        }
        return text;
    }

    void add_ratios(ReportTable::Row& row, const Duel& duel, const std::string& other) const {
        row.cells.push_back(ratio_cell(duel.all, other));
        for (const Ratio& ratio : duel.by_pattern) {
            row.cells.push_back(ratio_cell(ratio, other));
        }
    }

    [[nodiscard]] std::string ratio_caption(const std::string& what) const {
        return fmt::format(
            "{} {}, of the same pattern and seed, less one: mean of {}{}{}",
            comparison_.has_target ? "time to the target" : "samples per second", what,
            seeds_text(), seeds_ > 1 ? " with its 95 % interval" : "",
            comparison_.has_target ? "; below it the two parts of which it is made" : "");
    }

    [[nodiscard]] CellText of_ideal(std::size_t mode) const {
        std::vector<double> shares;
        for (const ComparedCell& cell : comparison_.cells[mode]) {
            if (cell.of_ideal.runs > 0) {
                shares.push_back(cell.of_ideal.median);
            }
        }
        return shares.empty() ? CellText{.main = "not known", .never = true}
                              : CellText{.main = percent(median(std::move(shares)))};
    }

    [[nodiscard]] ReportTable against_reference() const {
        const std::string& reference = results_.modes[comparison_.reference].name;
        ReportTable table{.title = "Against " + reference,
                          .caption = ratio_caption("relative to that of " + reference),
                          .columns = columns({"pace / ideal", "all patterns"}),
                          .rows = {}};
        for (std::size_t mode = 0; mode < results_.modes.size(); ++mode) {
            ReportTable::Row row = row_of(mode);
            row.cells.push_back(of_ideal(mode));
            if (mode == comparison_.reference) {
                row.cells.resize(table.columns.size(), {.main = "1", .never = true});
            } else {
                add_ratios(row, comparison_.to_reference[mode], reference);
            }
            table.rows.push_back(std::move(row));
        }
        return table;
    }

    [[nodiscard]] ReportTable against_each(std::size_t judged) const {
        const std::string& name = results_.modes[judged].name;
        ReportTable table{
            .title = name + " against each",
            .caption = ratio_caption(fmt::format("of {} relative to the row's", name)),
            .columns = columns({"all patterns"}),
            .rows = {}};
        for (const Duel& duel : comparison_.duels) {
            if (duel.mode == judged) {
                ReportTable::Row row = row_of(duel.other);
                add_ratios(row, duel, row.name);
                table.rows.push_back(std::move(row));
            }
        }
        return table;
    }

    // Regret.

    [[nodiscard]] ReportTable regrets() const {
        ReportTable table{
            .title = "Regret",
            .caption = ratio_caption("relative to that of the fixed mode that is best on the other "
                                     "seeds"),
            .columns = columns({"median of the patterns", "worst of the patterns"}),
            .rows = {}};
        for (std::size_t mode = 0; mode < results_.modes.size(); ++mode) {
            const Regret& regret = comparison_.regrets[mode];
            ReportTable::Row row = row_of(mode);
            if (regret.patterns > 0) {
                row.cells = {{.main = change_text(regret.median, true)},
                             {.main = change_text(regret.worst, true),
                              .below = {results_.patterns[regret.worst_pattern]}}};
            }
            row.cells.resize(2, {.main = "no pair", .never = true});
            for (const Ratio& ratio : regret.by_pattern) {
                row.cells.push_back(ratio_cell(ratio, "oracle"));
            }
            table.rows.push_back(std::move(row));
        }
        table.rows.push_back(oracle_row());
        return table;
    }

    /// How often each mode was the oracle: "asgd ×3, ssgd ×2", the most frequent first.
    [[nodiscard]] ReportTable::Row oracle_row() const {
        ReportTable::Row row{.name = "oracle", .note = "hindsight", .cells = {{}, {}}};
        for (const std::vector<std::string>& choices : comparison_.oracle) {
            std::map<std::string, int> counts;
            for (const std::string& choice : choices) {
                counts[choice] -= 1;
            }
            counts.erase("");
            std::set<std::pair<int, std::string>> order;
            for (const auto& [name, count] : counts) {
                order.emplace(count, name);
            }
            std::string text;
            for (const auto& [count, name] : order) {
                text += fmt::format("{}{} ×{}", text.empty() ? "" : ", ", name, -count);
            }
            row.cells.push_back(
                {.main = text.empty() ? "runs are missing" : text, .never = text.empty()});
        }
        return row;
    }

    // Medians.

    [[nodiscard]] CellText measure_cell(const ComparedCell& cell, const Spread& spread,
                                        std::string (*format)(double)) const {
        if (spread.runs == 0) {
            return {.main = cell.rows.empty() ? "no run yet" : "no target", .never = true};
        }
        CellText text{.never = !std::isfinite(spread.median)};
        text.main = text.never ? not_reached(cell) : format(spread.median);
        if (spread.runs > 1) {
            text.below.push_back(spread_text(spread, format));
        }
        if (cell.rows.size() < seeds_) {
            text.below.push_back(fmt::format("{} of {} runs", cell.rows.size(), seeds_));
        }
        return text;
    }

    [[nodiscard]] ReportTable measures(const std::string& title, const std::string& unit,
                                       Spread ComparedCell::*spread,
                                       std::string (*format)(double)) const {
        ReportTable table{.title = title,
                          .caption = fmt::format("{}; median of {}{}", unit, seeds_text(),
                                                 seeds_ > 1 ? ", least–most" : ""),
                          .columns = columns({}),
                          .rows = {}};
        for (std::size_t mode = 0; mode < results_.modes.size(); ++mode) {
            ReportTable::Row row = row_of(mode);
            for (std::size_t pattern = 0; pattern < results_.patterns.size(); ++pattern) {
                const ComparedCell& cell = comparison_.cells[mode][pattern];
                CellText text = measure_cell(cell, cell.*spread, format);
                text.best = is_best(comparison_, spread, mode, pattern);
                if (spread == &ComparedCell::samples_per_s && cell.of_ideal.runs > 0) {
                    text.below.push_back(percent(cell.of_ideal.median) + " of ideal");
                }
                row.cells.push_back(std::move(text));
            }
            table.rows.push_back(std::move(row));
        }
        return table;
    }

    const SweepResults& results_;
    const Comparison& comparison_;
    std::size_t seeds_;
};

}  // namespace

std::vector<ReportTable> report_tables(const SweepResults& results, const Comparison& comparison) {
    return Tables(results, comparison).all();
}

}  // namespace cohort
