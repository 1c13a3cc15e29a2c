// What fleets come to, in sentences and tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cohort/core/error.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/fleet_page.hpp"
#include "report/page/page.hpp"

namespace cohort {
namespace {

/// Smallest share of time that is called a hold-up.
constexpr double kLeastShare = 0.001;

/// "; 2 jobs missed their target (ssgd: 5); 1 job failed (ssgd: 0)": only what there is.
/// @param first  counts beside it; null: there is none
std::string losses_text(const FleetGroup& group, const FleetGroup* first) {
    const auto part = [&](std::size_t (*lost)(const FleetGroup&), const char* what) {
        const std::size_t others = first == nullptr ? 0 : lost(*first);
        return lost(group) + others == 0
                   ? ""
                   : fmt::format(
                         "; {} {}{}", counted(lost(group), "job"), what,
                         first == nullptr ? "" : fmt::format(" ({}: {})", first->label, others));
    };
    return part([](const FleetGroup& of) { return of.summary.missed; }, "missed their target") +
           part([](const FleetGroup& of) { return of.summary.failed; }, "failed") +
           part(
               [](const FleetGroup& of) {
                   return of.all.jobs.size() - of.summary.ended - of.summary.failed;
               },
               "stopped before their end");
}

/// "3 seeds × 350 jobs", "16 jobs", or with unlike numbers "1,043 jobs of 3 seeds".
std::string jobs_text(std::size_t jobs, std::size_t seeds) {
    return seeds < 2 ? counted(jobs, "job")
           : jobs % seeds > 0
               ? fmt::format("{} of {}", counted(jobs, "job"), counted(seeds, "seed"))
               : fmt::format("{} × {}", counted(seeds, "seed"), counted(jobs / seeds, "job"));
}

/// Mean seconds from arrival to start of the jobs that ended.
double mean_queued_s(const FleetGroup& group) {
    double sum = 0;
    for (const FleetJobResult& job : group.all.jobs) {
        sum += job.ended() ? *job.start_s - job.arrival_s : 0;
    }
    return group.summary.ended > 0 ? sum / static_cast<double>(group.summary.ended) : 0;
}

/// "held up by the queue (30 % of the jobs' time) and ...".
std::string hold_ups(const FleetGroup& group) {
    const FleetSummary& all = group.summary;
    std::vector<std::string> causes;
    if (const double queue = mean_queued_s(group) / all.completion.mean; queue >= kLeastShare) {
        causes.push_back(
            fmt::format("the queue for devices ({} of the jobs' time)", percent(queue)));
    }
    if (all.waiting >= kLeastShare) {
        causes.push_back(fmt::format("waiting for others while they ran ({} of the workers' time)",
                                     percent(all.waiting)));
    }
    std::string text = causes.empty() ? "nothing held them up"
                                      : fmt::format("held up by {}", fmt::join(causes, " and "));
    if (all.slowdown.count > 0) {
        text += fmt::format("; jobs took {:.2f} times as long as alone", all.slowdown.mean);
    }
    return text;
}

std::string alone_verdict(const FleetGroup& group, const FleetTime& time) {
    const std::size_t seeds = group.results.size();
    const std::string jobs =
        fmt::format("{} on {} of {}", jobs_text(group.all.jobs.size(), seeds),
                    counted(static_cast<std::size_t>(group.all.nodes), "node"),
                    counted(static_cast<std::size_t>(group.all.devices_per_node), "device"));
    std::string text = jobs + ": none ended";
    if (const Distribution& values = group.summary.*time.values; values.count > 0) {
        const bool least = time.values == &FleetSummary::tta && group.summary.missed > 0;
        text = fmt::format(
            "{}: mean {} {}{} s (95th percentile {} s), the last one over after {} s{}; {}", jobs,
            time.name, least ? "at least " : "", seconds_text(values.mean),
            seconds_text(values.p95), seconds_text(group.all.makespan_s),
            seeds > 1 ? " on average" : "", hold_ups(group));
    }
    return text + losses_text(group, nullptr) + ".";
}

std::string pair_verdict(const FleetGroup& group, const FleetGroup& first, const FleetTime& time) {
    const FleetComparison& to = group.to_first;
    if ((to.*time.ratio).value <= 0) {
        return fmt::format("{}: no job that ended here and under {}.", group.label, first.label);
    }
    const Interval ratio = log_ratio(to.*time.ratio);
    return fmt::format("{}: mean {} {} that of {} over {}{}{}.", group.label, time.name,
                       apart_text(ratio, true), first.label, jobs_text(to.pairs, to.seeds),
                       ratio.low <= 0 && ratio.high >= 0 ? ", which may be chance" : "",
                       losses_text(group, &first));
}

/// @param least  the values are lower bounds
CellText distribution_cell(const Distribution& values, bool least,
                           std::string (*text)(double value)) {
    if (values.count == 0) {
        return {.main = "-", .never = true};
    }
    return {.main = (least ? "≥ " : "") + text(values.mean),
            .below = {"median " + text(values.median), "p95 " + text(values.p95),
                      "p99 " + text(values.p99)}};
}

std::vector<CellText> fleet_cells(const FleetGroup& group, bool targets) {
    const FleetSummary& all = group.summary;
    std::vector<CellText> cells;
    if (targets) {
        cells.push_back(distribution_cell(all.tta, all.missed > 0, seconds_text));
    }
    cells.push_back(distribution_cell(all.completion, false, seconds_text));
    for (const double seconds : {mean_queued_s(group), group.all.makespan_s}) {
        cells.push_back({.main = seconds_text(seconds)});
    }
    cells.push_back(
        {.main = fmt::format("{}", group.all.jobs.size()),
         .below = {fmt::format("{} missed", all.missed), fmt::format("{} failed", all.failed)}});
    for (const double share : {all.devices, all.cores, all.network, all.waiting}) {
        cells.push_back({.main = percent(share)});
    }
    cells.push_back(distribution_cell(all.slowdown, false,
                                      [](double value) { return fmt::format("{:.2f}", value); }));
    return cells;
}

}  // namespace

std::vector<FleetGroup> group_fleets(const std::vector<FleetResult>& results) {
    const bool real = std::ranges::any_of(results, &FleetResult::real);
    if (real && !std::ranges::all_of(results, &FleetResult::real)) {
        fail<UsageError>({.where = "fleets",
                          .what = "virtual and real ones on one page",
                          .expected = "one kind"});
    }
    std::vector<FleetGroup> groups;
    for (const FleetComparison& compared : compare_fleets(results)) {
        FleetGroup& group = groups.emplace_back();
        group.label = compared.label;
        group.to_first = compared;
        for (const FleetResult& result : results) {
            if (result.label != group.label) {
                continue;
            }
            group.results.push_back(&result);
            FleetResult& all = group.all;
            all.real = result.real;
            all.nodes = result.nodes;
            all.devices_per_node = result.devices_per_node;
            all.makespan_s += result.makespan_s;
            all.jobs.insert(all.jobs.end(), result.jobs.begin(), result.jobs.end());
            const double since_s = all.use.empty() ? 0 : all.use.back().time_s;
            for (const FleetUsePoint& point : result.use) {
                all.use.push_back(point);
                all.use.back().time_s += since_s;
            }
        }
        group.all.makespan_s /= static_cast<double>(group.results.size());
        group.summary = summarise(group.all);
    }
    return groups;
}

bool has_targets(const std::vector<FleetGroup>& groups) {
    return std::ranges::any_of(groups, [](const FleetGroup& group) {
        return std::ranges::any_of(group.all.jobs,
                                   [](const FleetJobResult& job) { return has_target(job); });
    });
}

std::vector<std::string> fleet_verdicts(const std::vector<FleetGroup>& groups) {
    const FleetTime& time = kFleetTimes.at(has_targets(groups) ? 0 : 1);
    if (groups.size() == 1) {
        return {alone_verdict(groups.front(), time)};
    }
    std::vector<std::string> sentences;
    for (std::size_t i = 1; i < groups.size(); ++i) {
        sentences.push_back(pair_verdict(groups[i], groups.front(), time));
    }
    return sentences;
}

ReportTable fleet_table(const std::vector<FleetGroup>& groups) {
    const bool targets = has_targets(groups);
    ReportTable table{
        .title = "Jobs and nodes",
        .caption =
            "times of jobs since their arrival in seconds (of virtual jobs: virtual ones), mean "
            "over the jobs that "
            "ended (≥: a missed target counts with the completion time); shares of all "
            "nodes until the last job ends; waiting: share of the workers' time lost to "
            "others; cards: both directions; slowdown: time among the other jobs over time alone",
        .columns = {"time to accuracy", "completion time", "in the queue", "makespan", "jobs",
                    "devices held", "processors busy", "cards busy", "waiting", "slowdown"},
        .rows = {},
        .rows_are = "label"};
    if (!targets) {
        table.columns.erase(table.columns.begin());
    }
    for (const FleetGroup& group : groups) {
        table.rows.push_back({group.label, "", fleet_cells(group, targets)});
    }
    return table;
}

ReportTable fleet_room_table(const std::vector<FleetGroup>& groups) {
    constexpr std::size_t kMostRows = 10;
    const auto moved_s = [](const FleetJobResult& job) {
        return std::abs(job.room_taken_s.value_or(0)) + std::abs(job.room_given_s.value_or(0));
    };
    ReportTable table{
        .title = "Room that jobs made for each other",
        .caption =
            "seconds of a job's pace alone, as predicted: what grants brought it, and what it gave "
            "to those of others (below 0: it gained by them); of the first seed of each label the "
            "jobs that took "
            "and gave most, all others are in " +
            std::string(kFleetJobsFile),
        .columns = {"grants", "taken", "given"},
        .rows = {},
        .rows_are = "job"};
    for (const FleetGroup& group : groups) {
        std::vector<FleetJobResult> jobs = group.results.front()->jobs;
        std::erase_if(jobs, [&](const FleetJobResult& job) { return moved_s(job) == 0; });
        std::ranges::stable_sort(jobs, std::ranges::greater(), moved_s);
        jobs.resize(std::min(jobs.size(), kMostRows));
        for (const FleetJobResult& job : jobs) {
            table.rows.push_back(
                {.name = fmt::format("{}: {}", group.label, job.name),
                 .cells = {{.main = fmt::format("{}", job.grants.value_or(0))},
                           {.main = fmt::format("{:.1f}", job.room_taken_s.value_or(0))},
                           {.main = fmt::format("{:.1f}", job.room_given_s.value_or(0))}}});
        }
    }
    return table;
}

Interval log_ratio(const Interval& ratio) {
    return {
        .value = std::log(ratio.value), .low = std::log(ratio.low), .high = std::log(ratio.high)};
}

}  // namespace cohort
