// The tables of a page of runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/units.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/run_rows.hpp"
#include "report/page/svg.hpp"
#include "report/run/run_tables.hpp"

namespace cohort {
namespace {

constexpr std::size_t kMostTableRows = 60;  ///< of a table

CellText number(double value) {
    return {.main = std::isfinite(value) ? short_number(value) : "", .never = true};
}

CellText seconds(const std::optional<double>& value) {
    return {.main = value ? seconds_text(*value) : "", .never = true};
}

CellText count(std::int64_t value) {
    return {.main = format_count(static_cast<std::uint64_t>(std::max<std::int64_t>(0, value))),
            .never = true};
}

CellText plain(const std::string& text) {
    return {.main = text, .never = true};
}

CellText words(const std::string& text) {
    return {.main = text, .never = true, .words = true};
}

/// "; the first 60 of 81", or nothing.
std::string cut_text(std::size_t all) {
    return all > kMostTableRows ? fmt::format("; the first {} of {}", kMostTableRows, all) : "";
}

void cut(ReportTable& table) {
    table.caption += cut_text(table.rows.size());
    table.rows.resize(std::min(table.rows.size(), kMostTableRows));
}

std::string end_text(const RunHistory& run) {
    if (run.failure) {
        return fmt::format("failed, exit status {}", run.failure->exit_code);
    }
    return run.summary ? run.summary->stop_reason : "runs, or was killed";
}

CellText quality_cell(const RunHistory& run) {
    if (run.evaluations.empty()) {
        return {.never = true};
    }
    const RunEvaluation& last = run.evaluations.back();
    CellText cell{.main = quality_text(run, test_quality(last)), .never = true};
    cell.below.push_back(fmt::format("loss {:.4g}", last.loss));
    if (std::isfinite(last.perplexity)) {
        cell.below.push_back(fmt::format("perplexity {:.4g}", last.perplexity));
    }
    return cell;
}

/// Returned samples by reason: "64 lost, 32 dropped".
std::vector<std::string> reasons_of(const RunSummary& summary) {
    std::vector<std::string> reasons;
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        if (summary.returned[reason] > 0) {
            std::string name = kReturnReasonNames.at(reason);
            std::ranges::replace(name, '_', ' ');
            reasons.push_back(fmt::format(
                "{} {}", format_count(static_cast<std::uint64_t>(summary.returned[reason])), name));
        }
    }
    return reasons;
}

}  // namespace

ReportTable runs_table(const std::vector<RunHistory>& runs, const std::optional<PageLevel>& level) {
    ReportTable table{.title = "Runs",
                      .caption = "at their ends; times are seconds of training, tests aside",
                      .rows_are = "run"};
    if (level) {
        table.columns.push_back("time to " + level->text + ", s");
    }
    for (const char* column :
         {"test", "training, s", "samples", "samples/s", "lag, mean", "mode", "workers", "ended"}) {
        table.columns.emplace_back(column);
    }
    for (const RunHistory& run : runs) {
        ReportTable::Row& row = table.rows.emplace_back();
        row.name = run.label;
        if (level) {
            row.cells.push_back(seconds(time_to(run, level->level)));
            row.cells.back().main += row.cells.back().main.empty() ? "not reached" : "";
        }
        row.cells.push_back(quality_cell(run));
        row.cells.push_back(seconds(run.end_s));
        row.cells.push_back(count(run.samples_applied));
        row.cells.push_back(number(
            run.end_s > 0 ? static_cast<double>(run.samples_applied) / run.end_s : kUnknown));
        row.cells.push_back(number(run.summary ? run.summary->lag_mean : kUnknown));
        row.cells.push_back(plain(run.mode()));
        row.cells.push_back(count(run.workers()));
        row.cells.push_back(plain(end_text(run)));
    }
    return table;
}

ReportTable changes_table(const std::vector<RunHistory>& runs) {
    ReportTable table{
        .title = "Changes of mode",
        .caption =
            "regroupings within a mode included; in force and first update after the "
            "request",
        .columns = {"at, s", "change", "why", "in force after, s", "first update after, s"},
        .rows_are = "run"};
    for (const RunHistory& run : runs) {
        for (const SwitchReport& change : run.changes) {
            ReportTable::Row& row = table.rows.emplace_back();
            row.name = run.label;
            row.cells = {seconds(change.train_seconds), words(words_of(change)), words(change.why),
                         number(change.in_force_s.value_or(kUnknown)),
                         number(change.first_update_s.value_or(kUnknown))};
        }
    }
    cut(table);
    return table;
}

ReportTable slow_table(const std::vector<RunHistory>& runs) {
    /// All episodes of a worker with one cause.
    struct Sum {
        std::int64_t times = 0;
        double first_s = HUGE_VAL;
        double last_s = 0;
        double slow_s = 0;
        double slowdown_s = 0;  ///< slowdown x seconds
        double cost = 0;
    };
    ReportTable table{
        .title = "Who was slow, and why",
        .caption =
            "slowness that lasted; slowdown is the mean of the worker's own time over the "
            "fastest worker's, lost what the fastest would have saved",
        .columns = {"worker", "cause", "slow for, s", "slowdown", "lost, s", "from, s", "to, s",
                    "times"},
        .rows_are = "run"};
    for (const RunHistory& run : runs) {
        std::map<std::pair<int, StragglerCause>, Sum> sums;
        for (const StragglerEpisode& slow : run.slow) {
            Sum& sum = sums[{slow.worker, slow.cause}];
            ++sum.times;
            sum.first_s = std::min(sum.first_s, slow.begin_s);
            sum.last_s = std::max(sum.last_s, slow.end_s);
            sum.slow_s += slow.duration_s();
            sum.slowdown_s += slow.duration_s() * slow.slowdown;
            sum.cost += cost_s(slow);
        }
        std::vector<std::pair<std::pair<int, StragglerCause>, Sum>> order(sums.begin(), sums.end());
        std::ranges::stable_sort(order, std::ranges::greater(),
                                 [](const auto& entry) { return entry.second.cost; });
        for (const auto& [key, sum] : order) {
            ReportTable::Row& row = table.rows.emplace_back();
            row.name = run.label;
            row.cells = {count(key.first),
                         plain(std::string(word_of(key.second))),
                         seconds(sum.slow_s),
                         number(sum.slow_s > 0 ? sum.slowdown_s / sum.slow_s : kUnknown),
                         seconds(sum.cost),
                         seconds(sum.first_s),
                         seconds(sum.last_s),
                         count(sum.times)};
        }
    }
    cut(table);
    return table;
}

ReportTable faults_table(const std::vector<RunHistory>& runs) {
    ReportTable table{.title = "What faults and safety cost",
                      .caption =
                          "returned samples were computed or leased, and not applied; pauses "
                          "are seconds in which training stood still",
                      .columns = {"samples returned", "workers lost", "parts", "checkpoints",
                                  "pauses for them, s", "batches dropped"},
                      .rows_are = "run"};
    for (const RunHistory& run : runs) {
        ReportTable::Row& row = table.rows.emplace_back();
        row.name = run.label;
        CellText returned{.never = true};
        if (run.summary) {
            returned = count(run.summary->samples_returned);
            returned.below = reasons_of(*run.summary);
        }
        double pause_s = 0;
        std::size_t failed = 0;
        for (const RunCheckpoint& checkpoint : run.checkpoints) {
            pause_s += checkpoint.pause_s;
            failed += checkpoint.error.empty() ? 0 : 1;
        }
        CellText checkpoints = count(static_cast<std::int64_t>(run.checkpoints.size()));
        if (failed > 0) {
            checkpoints.below.push_back(fmt::format("{} failed", failed));
        }
        row.cells = {returned,
                     count(std::ssize(lost_spans(run))),
                     count(static_cast<std::int64_t>(run.parts.size())),
                     checkpoints,
                     seconds(pause_s),
                     count(static_cast<std::int64_t>(run.dropped.size()))};
    }
    return table;
}

}  // namespace cohort
