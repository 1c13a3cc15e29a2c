#include "sim/fleet/room_review.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

RoomReview::RoomReview(RoomRule rule, std::vector<NodeCapacity> nodes)
    : rule_(rule), nodes_(std::move(nodes)), ledger_(rule) {
}

void RoomReview::start(std::size_t job, double now_s, const Size& size, JobNeeds needs) {
    running_[job] = {.size = size,
                     .needs = std::move(needs),
                     .samples = size.samples,
                     .since_s = now_s,
                     .refused = {}};
    changed_ = true;
}

void RoomReview::applied(std::size_t job, std::int64_t samples) {
    running_.at(job).samples = samples;
}

void RoomReview::needs(std::size_t job, double now_s, JobNeeds needs) {
    Running& one = running_.at(job);
    one.measure_anew(now_s);
    one.needs = std::move(needs);
}

void RoomReview::release(std::size_t job, double now_s) {
    record_.book(ledger_, now_s);
    ledger_.release(static_cast<int>(job));
    record_.book(ledger_, now_s);
    changed_ = true;
}

void RoomReview::end(std::size_t job, double now_s) {
    if (running_.contains(job)) {
        release(job, now_s);
        running_.erase(job);
    }
}

bool RoomReview::admits(std::size_t job, double now_s, const Wish& wish) {
    const auto found = running_.find(job);
    if (!on() || found == running_.end() || !found->second.needs.ring.empty()) {
        return true;
    }
    Running& asker = found->second;
    if (asker.refused.contains(wish.to)) {
        return false;
    }
    const std::vector<RoomJob> all = jobs(now_s);
    const auto index = std::ranges::find(all, static_cast<int>(job), &RoomJob::id) - all.begin();
    const PlanEffect effect =
        ledger_.effect_of(nodes(), all,
                          {.asker = static_cast<std::size_t>(index),
                           .demand = wish.needs.placed.demand,
                           .value = wish.worth * wish.needs.samples_s / asker.needs.samples_s});
    double lost = 0;
    for (const auto& [other, loss] : effect.losses) {
        lost += std::max(loss, 0.0);
    }
    if (effect.fits || (wish.for_others_only && lost < RoomLimits::kLeastGain)) {
        return true;
    }
    asker.refused.insert(wish.to);
    record_.refused({.job = static_cast<int>(job),
                     .at_s = now_s,
                     .from = wish.from,
                     .to = wish.to,
                     .gain = effect.gain,
                     .losses = effect.losses});
    return false;
}

bool RoomReview::due(double now_s) const {
    return on() && (changed_ || now_s >= next_s_);
}

void RoomReview::review(double now_s) {
    bool fresh = std::exchange(changed_, false);
    next_s_ = now_s + kReviewSeconds;
    record_.book(ledger_, now_s);
    std::map<int, double> before;
    for (const auto& [asker, grant] : ledger_.grants()) {
        before.emplace(asker, grant.weight);
    }
    ledger_.review(now_s, nodes(), jobs(now_s));
    for (const auto& [asker, grant] : ledger_.grants()) {
        const auto known = before.find(asker);
        fresh = fresh || known == before.end() || known->second != grant.weight;
    }
    fresh = fresh || before.size() != ledger_.grants().size();
    record_.book(ledger_, now_s);
    for (auto& [job, one] : running_) {
        one.refused.clear();
        if (fresh || one.measured(now_s) > 0) {
            one.measure_anew(now_s);
        }
    }
}

std::vector<PlacedJob> RoomReview::placed() const {
    std::vector<PlacedJob> found;
    for (const auto& [job, one] : running_) {
        if (one.needs.ring.empty()) {
            found.push_back(one.needs.placed);
        }
    }
    return found;
}

/// Jobs on rings have weight 1 and stay where they are: they are what runs beside the others.
std::vector<NodeRoom> RoomReview::nodes() const {
    std::vector<NodeRoom> nodes;
    for (const NodeCapacity& capacity : nodes_) {
        nodes.push_back({.capacity = capacity});
    }
    for (const auto& [job, one] : running_) {
        for (std::size_t node = 0; node < one.needs.ring.size(); ++node) {
            nodes[node].used.cores += one.needs.ring[node].cores;
            nodes[node].used.rx += one.needs.ring[node].rx;
            nodes[node].used.tx += one.needs.ring[node].tx;
        }
    }
    return nodes;
}

/// Those with servers.
std::vector<RoomJob> RoomReview::jobs(double now_s) const {
    std::vector<RoomJob> found;
    for (const auto& [job, one] : running_) {
        if (one.needs.ring.empty()) {
            found.push_back(one.look(job, now_s));
        }
    }
    return found;
}

RoomJob RoomReview::Running::look(std::size_t job, double now_s) const {
    const std::int64_t left = size.budget_samples - samples;
    const std::int64_t least = size.reference_batch;
    return {.id = static_cast<int>(job),
            .placed = needs.placed,
            .left_s = static_cast<double>(std::max(left, least)) / needs.samples_s,
            .ahead_s = ahead_now_s(now_s),
            .measured = measured(now_s)};
}

/// Relative to alone; 0: too little was done for it to be known.
double RoomReview::Running::measured(double now_s) const {
    constexpr std::int64_t kLeastBatches = 10;  // reference batches
    const std::int64_t done = samples - size.samples;
    const double seconds = now_s - since_s;
    return done < kLeastBatches * size.reference_batch || seconds <= 0
               ? 0
               : static_cast<double>(done) / seconds / needs.samples_s;
}

/// RoomJob::ahead_s now.
double RoomReview::Running::ahead_now_s(double now_s) const {
    const auto done = static_cast<double>(samples - size.samples);
    return ahead_s + done / needs.samples_s - RoomLimits::kLeastPace * (now_s - since_s);
}

void RoomReview::Running::measure_anew(double now_s) {
    ahead_s = ahead_now_s(now_s);
    since_s = now_s;
    size.samples = samples;
}

}  // namespace cohort
