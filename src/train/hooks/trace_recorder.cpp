#include "train/hooks/trace_recorder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

/// Times within this factor are alike.
constexpr double kAlike = 1.08;
/// A single push that differs by this factor begins a new stretch.
constexpr double kPlain = 1.5;
/// Shares above 1 - kNoise count as 1; a new row needs a change by kNoise.
constexpr double kNoise = 0.04;
/// Delays below this share of an iteration are noise.
constexpr double kLeastDelay = 0.02;

double factor(double one, double other) {
    return std::max(one, other) / std::max(std::min(one, other), 1e-12);
}

/// The weighted median. @param values  (value, weight), at least one
double weighted_median(std::vector<std::pair<double, double>> values) {
    std::sort(values.begin(), values.end());
    double total = 0;
    for (const auto& [value, weight] : values) {
        total += weight;
    }
    double sum = 0;
    for (const auto& [value, weight] : values) {
        sum += weight;
        if (sum >= total / 2) {
            return value;
        }
    }
    return values.back().first;
}

bool alike(const Shares& one, const Shares& other, double iteration_s) {
    return std::abs(one.device - other.device) < kNoise * std::max(one.device, other.device) &&
           std::abs(one.delay_s - other.delay_s) < kNoise * iteration_s;
}

}  // namespace

bool TraceRecorder::differs(const Amount& push, const Amount& from, double least) {
    const double step_s = from.compute_s / static_cast<double>(from.pushes);
    const double other = std::abs(push.other_per_push() - from.other_per_push());
    return factor(push.per_sample(), from.per_sample()) > least || other > (least - 1) * step_s;
}

void TraceRecorder::Amount::add(const Amount& more) noexcept {
    samples += more.samples;
    pushes += more.pushes;
    compute_s += more.compute_s;
    other_s += more.other_s;
}

void TraceRecorder::Course::merge_neighbours() {
    std::vector<Stretch> merged;
    for (std::size_t i = 0; i < stretches.size(); i += 2) {
        merged.push_back(stretches[i]);
        if (i + 1 < stretches.size()) {
            merged.back().amount.add(stretches[i + 1].amount);
        }
    }
    stretches = std::move(merged);
}

void TraceRecorder::Course::settle_odd() {
    if (odd) {
        stretches.back().amount.add(odd->amount);
        odd.reset();
    }
}

void TraceRecorder::Course::take(const Stretch& push) {
    if (stretches.empty() || differs(push.amount, stretches.back().amount, kPlain)) {
        settle_odd();
        stretches.push_back(push);
    } else if (!differs(push.amount, stretches.back().amount, kAlike)) {
        settle_odd();
        stretches.back().amount.add(push.amount);
    } else if (odd && !differs(push.amount, odd->amount, kAlike)) {
        odd->amount.add(push.amount);
        stretches.push_back(*std::exchange(odd, std::nullopt));
    } else {
        settle_odd();
        odd = push;
    }
    if (stretches.size() > kMostStretches) {
        merge_neighbours();
    }
}

TraceRecorder::TraceRecorder(int workers, std::int64_t batch)
    : batch_(batch), courses_(static_cast<std::size_t>(workers)) {
}

/// Ignores the time of receiving parameters: under most modes all workers receive them at once.
void TraceRecorder::timed(const IterationRecord& record, double now_s) {
    const double other_s = record.input_s + record.push_s;
    if (record.samples <= 0 || record.compute_s <= 0) {
        return;
    }
    const Stretch push{.begin_s = now_s - record.compute_s - other_s,
                       .amount = {.samples = record.samples,
                                  .pushes = 1,
                                  .compute_s = record.compute_s,
                                  .other_s = other_s}};
    first_s_ = std::min(first_s_.value_or(push.begin_s), push.begin_s);
    courses_.at(static_cast<std::size_t>(record.worker)).take(push);
}

TraceRecorder::Healthy TraceRecorder::healthy() const {
    Healthy best;
    bool found = false;
    for (const Course& course : courses_) {
        std::vector<std::pair<double, double>> compute;
        std::vector<std::pair<double, double>> other;
        for (const Stretch& stretch : course.stretches) {
            const Amount& amount = stretch.amount;
            compute.emplace_back(amount.per_sample(), static_cast<double>(amount.samples));
            other.emplace_back(amount.other_per_push(), static_cast<double>(amount.pushes));
        }
        if (compute.empty()) {
            continue;
        }
        const Healthy mine{.per_sample_s = weighted_median(std::move(compute)),
                           .other_s = weighted_median(std::move(other))};
        best.per_sample_s =
            found ? std::min(best.per_sample_s, mine.per_sample_s) : mine.per_sample_s;
        best.other_s = found ? std::min(best.other_s, mine.other_s) : mine.other_s;
        found = true;
    }
    return best;
}

Shares TraceRecorder::shares_of(const Amount& amount, const Healthy& healthy) const {
    Shares shares;
    shares.device = std::min(1.0, healthy.per_sample_s / amount.per_sample());
    if (shares.device > 1 - kNoise) {
        shares.device = 1;
    }
    const double iteration_s = healthy.per_sample_s * static_cast<double>(batch_);
    const double delay_s = amount.other_per_push() - healthy.other_s;
    shares.delay_s = delay_s > kLeastDelay * iteration_s ? delay_s : 0;
    return shares;
}

std::vector<TraceRow> TraceRecorder::rows() const {
    const Healthy base = healthy();
    const double iteration_s = base.per_sample_s * static_cast<double>(batch_);
    std::vector<TraceRow> rows;
    for (std::size_t worker = 0; worker < courses_.size(); ++worker) {
        Shares in_force;
        for (const Stretch& stretch : courses_[worker].stretches) {
            const Shares shares = shares_of(stretch.amount, base);
            const bool first = &stretch == &courses_[worker].stretches.front();
            if (!alike(shares, in_force, iteration_s)) {
                rows.push_back({.time_s = first ? 0 : stretch.begin_s - *first_s_,
                                .target = {.kind = TraceTarget::Kind::kWorker,
                                           .index = static_cast<int>(worker)},
                                .shares = shares});
                in_force = shares;
            }
        }
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const TraceRow& a, const TraceRow& b) { return a.time_s < b.time_s; });
    return rows;
}

}  // namespace cohort
