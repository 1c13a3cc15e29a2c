#include "sim/scenario/pattern_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <set>

namespace cohort {
namespace {

/// Of an exponential distribution.
double draw_gap(Rng& random, double mean) {
    return -std::log1p(-static_cast<double>(random.next_uniform())) * mean;
}

}  // namespace

std::optional<TraceRow> EpisodesPart::next() {
    slow_ = !slow_;
    if (slow_) {
        episode_ = draw_(random_, episode_.end_s);
        return TraceRow{
            .time_s = episode_.begin_s, .target = episode_.target, .shares = episode_.shares};
    }
    return TraceRow{.time_s = episode_.end_s, .target = episode_.target, .shares = {}};
}

DriftPart::DriftPart(const Rng& random, std::vector<int> workers, const Drift& drift)
    : random_(random),
      workers_(std::move(workers)),
      drift_(drift),
      aside_(drift.deviation * static_cast<double>(random_.next_normal())) {
    set_share();
}

void DriftPart::set_share() {
    device_ = std::exp(-std::max(0.0, drift_.middle + aside_));
}

std::optional<TraceRow> DriftPart::next() {
    if (at_ == workers_.size()) {
        constexpr double kKept = 0.9;
        const double step = drift_.deviation * std::sqrt(1 - kKept * kKept);
        aside_ = kKept * aside_ + step * static_cast<double>(random_.next_normal());
        time_s_ += drift_.step_s * (0.5 + static_cast<double>(random_.next_uniform()));
        set_share();
        at_ = 0;
    }
    return TraceRow{
        .time_s = time_s_,
        .target = {.kind = TraceTarget::Kind::kWorker, .index = workers_[at_++]},
        .shares = {.device = device_},
    };
}

// Lengths are log-normal, as heavy-tailed as measured ones but shorter, so that jobs come and go
// while a training of some thousand iterations lasts.
namespace {
constexpr double kMedianIterations = 60;
constexpr double kSpread = 1.5;  ///< of the length's logarithm
constexpr double kMostIterations = 100'000;
const double kMeanIterations = kMedianIterations * std::exp(kSpread * kSpread / 2);
/// Workers of a job and how many jobs of a hundred have that many or fewer.
constexpr std::array<std::pair<int, std::uint32_t>, 5> kJobSizes{
    {{1, 50}, {2, 65}, {4, 80}, {8, 95}, {16, 100}}};
}  // namespace

ArrivalList::ArrivalList(const Rng& random, const Law& law)
    : random_(random), law_(law), first_(static_cast<int>(std::lround(law.others))) {
}

JobArrival ArrivalList::draw(double time_s, double iterations) {
    const std::uint32_t percent = random_.next_below(100);
    const auto* size = std::find_if(kJobSizes.begin(), kJobSizes.end(),
                                    [&](const auto& entry) { return percent < entry.second; });
    const double whole = std::clamp(std::ceil(iterations), 1.0, kMostIterations);
    return {
        .time_s = time_s,
        .workers = size->first,
        .servers = (size->first + 1) / 2,
        .first_node = static_cast<int>(random_.next_below(static_cast<std::uint32_t>(law_.nodes))),
        .workload = "",
        .iterations = static_cast<std::int64_t>(whole)};
}

JobArrival ArrivalList::next() {
    const double logarithm =
        std::log(kMedianIterations) + kSpread * static_cast<double>(random_.next_normal());
    if (first_ > 0) {
        // Met at a random moment: long jobs are met more often, and part of them is over.
        --first_;
        const double whole = std::exp(logarithm + kSpread * kSpread);
        return draw(0, whole * static_cast<double>(random_.next_uniform()));
    }
    time_s_ += draw_gap(random_, kMeanIterations * law_.iteration_s / law_.others);
    return draw(time_s_, std::exp(logarithm));
}

void PatternScenario::add(std::unique_ptr<PatternPart> part) {
    parts_.push_back(std::move(part));
    ask(parts_.size() - 1);
}

void PatternScenario::ask(std::size_t part) {
    if (std::optional<TraceRow> row = parts_[part]->next()) {
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

std::optional<JobArrival> PatternScenario::next_job() {
    return arrivals_ ? std::optional(arrivals_->next()) : std::nullopt;
}

}  // namespace cohort
