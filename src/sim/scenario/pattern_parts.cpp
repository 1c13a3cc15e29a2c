#include "sim/scenario/pattern_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <set>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Of an exponential distribution.
double draw_gap(Rng& random, double mean) {
    return -std::log1p(-static_cast<double>(random.next_uniform())) * mean;
}

// Lengths of other jobs are log-normal, as heavy-tailed as measured ones but shorter, so that jobs
// come and go while a training of some thousand iterations lasts.
constexpr double kMedianIterations = 60;
constexpr double kSpread = 1.5;  ///< of the length's logarithm
constexpr double kMostIterations = 100'000;
const double kMeanIterations = kMedianIterations * std::exp(kSpread * kSpread / 2);
/// Workers of a job and how many jobs of a hundred have that many or fewer.
constexpr std::array<std::pair<int, std::uint32_t>, 5> kJobSizes{
    {{1, 50}, {2, 65}, {4, 80}, {8, 95}, {16, 100}}};

JobArrival draw_job(Rng& random, const ArrivalLaw& law, double time_s, double iterations) {
    const std::uint32_t percent = random.next_below(100);
    const auto* size = std::find_if(kJobSizes.begin(), kJobSizes.end(),
                                    [&](const auto& entry) { return percent < entry.second; });
    const double whole = std::clamp(std::ceil(iterations), 1.0, kMostIterations);
    return {
        .time_s = time_s,
        .workers = size->first,
        .servers = (size->first + 1) / 2,
        .first_node = static_cast<int>(random.next_below(static_cast<std::uint32_t>(law.nodes))),
        .iterations = static_cast<std::int64_t>(whole)};
}

}  // namespace

void refuse_pattern(std::string_view what, const std::string& expected, std::string_view pattern) {
    fail<UsageError>({.where = "--pattern",
                      .what = what,
                      .expected = expected,
                      .got = fmt::format("'{}'", pattern)});
}

PatternPart steady_part(const TraceTarget& target, const Shares& shares) {
    return
        [row = std::optional(TraceRow{.time_s = 0, .target = target, .shares = shares})]() mutable {
            return std::exchange(row, std::nullopt);
        };
}

PatternPart episodes_part(const Rng& random, DrawEpisode draw) {
    return [from = random, draw = std::move(draw), episode = Episode(), slow = false]() mutable {
        slow = !slow;
        if (slow) {
            episode = draw(from, episode.end_s);
        }
        return std::optional(TraceRow{.time_s = slow ? episode.begin_s : episode.end_s,
                                      .target = episode.target,
                                      .shares = slow ? episode.shares : Shares{}});
    };
}

PatternPart drift_part(Rng random, std::vector<int> workers, const Drift& drift) {
    const double first = drift.deviation * static_cast<double>(random.next_normal());
    return [random, workers = std::move(workers), drift, aside = first, time_s = 0.0,
            at = std::size_t{0}]() mutable {
        if (at == workers.size()) {
            constexpr double kKept = 0.9;
            const double step = drift.deviation * std::sqrt(1 - kKept * kKept);
            aside = kKept * aside + step * static_cast<double>(random.next_normal());
            time_s += drift.step_s * (0.5 + static_cast<double>(random.next_uniform()));
            at = 0;
        }
        return std::optional(
            TraceRow{.time_s = time_s,
                     .target = {.kind = TraceTarget::Kind::kWorker, .index = workers[at++]},
                     .shares = {.device = std::exp(-std::max(0.0, drift.middle + aside))}});
    };
}

JobArrivals job_arrivals(const Rng& random, const ArrivalLaw& law) {
    return [from = random, law, first = std::lround(law.others), time_s = 0.0]() mutable {
        const double logarithm =
            std::log(kMedianIterations) + kSpread * static_cast<double>(from.next_normal());
        if (first > 0) {  // there from the beginning
            // Met at a random moment: long jobs are met more often, and part of them is over.
            --first;
            const double whole = std::exp(logarithm + kSpread * kSpread);
            return draw_job(from, law, 0, whole * static_cast<double>(from.next_uniform()));
        }
        time_s += draw_gap(from, kMeanIterations * law.iteration_s / law.others);
        return draw_job(from, law, time_s, std::exp(logarithm));
    };
}

void PatternScenario::add(PatternPart part) {
    parts_.push_back(std::move(part));
    ask(parts_.size() - 1);
}

void PatternScenario::ask(std::size_t part) {
    if (std::optional<TraceRow> row = parts_[part]()) {
        waiting_.push({.row = *row, .part = part});
    }
}

Shares PatternScenario::combined(const TraceTarget& target) const {
    Shares shares;
    for (const auto& [part, left] : left_.at(target)) {
        shares.cpu *= left.cpu;
        shares.rx *= left.rx;
        shares.tx *= left.tx;
        shares.device *= left.device;
        shares.delay_s += left.delay_s;
    }
    return shares;
}

/// All changes of the next moment, as a row for each target that changes.
void PatternScenario::take_moment() {
    const double time_s = waiting_.top().row.time_s;
    std::set<TraceTarget> changed;
    while (!waiting_.empty() && waiting_.top().row.time_s == time_s) {
        const Waiting next = waiting_.top();
        waiting_.pop();
        std::map<std::size_t, Shares>& left = left_[next.row.target];
        if (next.row.shares == Shares{}) {
            left.erase(next.part);
        } else {
            left[next.part] = next.row.shares;
        }
        changed.insert(next.row.target);
        ask(next.part);
    }
    for (const TraceTarget& target : std::ranges::reverse_view(changed)) {
        rows_.push_back({.time_s = time_s, .target = target, .shares = combined(target)});
    }
}

std::optional<TraceRow> PatternScenario::next_row() {
    if (rows_.empty() && !waiting_.empty()) {
        take_moment();
    }
    if (rows_.empty()) {
        return std::nullopt;
    }
    const TraceRow row = rows_.back();
    rows_.pop_back();
    return row;
}

}  // namespace cohort
