#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cohort/core/statistics.hpp"
#include "sched/modes/batch_balance.hpp"
#include "sched/modes/mode_table.hpp"
#include "sched/modes/policy_base.hpp"

// Modes that answer stragglers: by the samples of a lease, so that all workers take equally long,
// or by asgd in place of ssgd.
namespace cohort {
namespace {

constexpr double kFlexClockBound = 3;  ///< flexrr, as ssp

/// A rule for the batches.
using Balance = std::vector<std::int64_t> (*)(const std::vector<double>& times, std::int64_t batch);

/// proportional_batches with pieces as fine as those of `adaptive`.
std::vector<std::int64_t> fine_batches(const std::vector<double>& times, std::int64_t batch) {
    std::vector<CostLine> costs;
    for (const double time : times) {
        costs.push_back({.fixed_s = 0, .sample_s = time / static_cast<double>(batch)});
    }
    return balanced_batches(costs, batch);
}

/// Changes batches when the slowest worker is then done a tenth earlier.
class BatchPolicy final : public PolicyBase {
public:
    BatchPolicy(Mode mode, const ModeSetting& setting, Balance balance)
        : PolicyBase(std::move(mode), setting),
          balance_(balance),
          batches_(setting.live.size(), setting.batch) {}

protected:
    /// The remaining workers share the work by their times.
    Decision remake(std::string reason) override {
        batches_.assign(batches_.size(), setting().batch);
        Decision made = PolicyBase::remake(std::move(reason));
        if (wishes()) {
            take(balance_(times(), setting().batch));
        }
        made.batches = batches_;
        return made;
    }
    [[nodiscard]] bool wishes() const override {
        constexpr double kGain = 1.1;
        const std::vector<double> now = lease_times(batches(), times());
        const std::vector<double> then = lease_times(balance_(times(), setting().batch), times());
        const double slowest = *std::ranges::max_element(now);
        return slowest > kGain * *std::ranges::max_element(then);
    }
    Decision change() override {
        take(balance_(times(), setting().batch));
        return {.plan = {},
                .batches = batches_,
                .reason = fmt::format("batches by own time: {}", fmt::join(batches_, " "))};
    }

private:
    /// Batches in the order of live().
    [[nodiscard]] std::vector<std::int64_t> batches() const {
        std::vector<std::int64_t> samples;
        for (const int worker : live()) {
            samples.push_back(batches_[static_cast<std::size_t>(worker)]);
        }
        return samples;
    }
    void take(const std::vector<std::int64_t>& samples) {
        for (std::size_t i = 0; i < live().size(); ++i) {
            batches_[static_cast<std::size_t>(live()[i])] = samples[i];
        }
    }

    Balance balance_;
    std::vector<std::int64_t> batches_;  ///< by worker
};

std::unique_ptr<ModePolicy> lb_bsp_policy(Mode mode, const ModeSetting& setting) {
    const bool fine = mode.values.at(0) > 0;  // the second word of the mode's table
    return std::make_unique<BatchPolicy>(std::move(mode), setting,
                                         fine ? fine_batches : proportional_batches);
}

std::unique_ptr<ModePolicy> flexrr_policy(Mode mode, const ModeSetting& setting) {
    return std::make_unique<BatchPolicy>(std::move(mode), setting, helped_batches);
}

SyncPlan flexrr(const ModeRequest& request) {
    return make_plan("ssp:" + std::to_string(request.whole(0)), request.setting);
}

SyncPlan all_wait(const ModeRequest& request) {
    return make_plan("ssgd", request.setting);
}

/// sync-switch's asgd: under the published rule a push of b of the B samples moves by b/B of the
/// learning rate, which is that of ssgd's updates.
SyncPlan asynchronous_plan(const ModeSetting& setting) {
    SyncPlan plan = make_plan("asgd", setting);
    if (setting.lr_rule == SyncPlan::LrUnit::kPublished) {
        plan.weight = [](const FiredPush& /*push*/, const FiringSet& set) {
            return static_cast<double>(set.pushes->front().ticket.samples) /
                   static_cast<double>(set.reference_batch);
        };
    }
    return plan;
}

/// ssgd for a share of the budget, then asgd (Li et al. 2021). While a worker is a straggler asgd
/// replaces ssgd, and its samples do not count for the share.
class SyncSwitchPolicy final : public PolicyBase {
public:
    SyncSwitchPolicy(Mode mode, const ModeSetting& setting)
        : PolicyBase(std::move(mode), setting),
          share_(this->mode().values.at(0)),
          waiting_(share_ > 0),
          seen_(setting.samples_before) {}

    [[nodiscard]] bool looks(const RunCounts& counts) const override {
        return !over_ &&
               (done(counts.samples_applied, counts.budget_samples) || PolicyBase::looks(counts));
    }

protected:
    Decision adapt(const Telemetry& telemetry) override {
        const bool share_done = done(telemetry.samples_applied, telemetry.budget_samples);
        synchronous_ = synchronous_samples(telemetry.samples_applied);
        seen_ = telemetry.samples_applied;
        if (over_) {
            return {};
        }
        if (share_done) {
            over_ = true;
            return std::exchange(waiting_, false) ? remake("the synchronous share is done")
                                                  : Decision();
        }
        return PolicyBase::adapt(telemetry);
    }
    Decision remake(std::string reason) override {
        return {.plan = waiting_ ? make_plan("ssgd", setting()) : asynchronous_plan(setting()),
                .batches = {},
                .reason = std::move(reason)};
    }
    /// Under ssgd: there is a straggler; under asgd: there is none any more.
    [[nodiscard]] bool wishes() const override {
        constexpr double kStraggles = 1.2;
        constexpr double kKeepsUp = 1.1;
        const double slowest = *std::ranges::max_element(times());
        const double others = upper_median(times());
        return waiting_ ? slowest > kStraggles * others : slowest < kKeepsUp * others;
    }
    Decision change() override {
        waiting_ = !waiting_;
        return remake(waiting_ ? "all keep up again" : "a worker straggles");
    }

private:
    [[nodiscard]] std::int64_t synchronous_samples(std::int64_t applied) const {
        return synchronous_ + (waiting_ ? applied - seen_ : 0);
    }
    [[nodiscard]] bool done(std::int64_t applied, std::int64_t budget) const {
        return static_cast<double>(synchronous_samples(applied)) >=
               share_ * static_cast<double>(budget);
    }

    double share_;
    bool waiting_;                  ///< under ssgd
    bool over_ = false;             ///< the share is done
    std::int64_t seen_;             ///< samples applied
    std::int64_t synchronous_ = 0;  ///< samples applied by this mode, not under asgd
};

/// With a share of 0 the mode starts with asgd.
SyncPlan sync_switch(const ModeRequest& request) {
    return request.values[0] > 0 ? make_plan("ssgd", request.setting)
                                 : asynchronous_plan(request.setting);
}

}  // namespace

std::vector<ModeEntry> balancing_modes() {
    return {
        {.name = "lb-bsp",
         .rings = true,
         .parameters = {{.name = "PIECES", .fallback = 0, .words = {"8", "32"}}},
         .plan = all_wait,
         .policy = lb_bsp_policy},
        {.name = "sync-switch",
         .parameters = {{.name = "SHARE", .most = ModeParameter::Most::kOne, .whole = false}},
         .plan = sync_switch,
         .policy = policy_of<SyncSwitchPolicy>},
        {.name = "flexrr",
         .parameters = {{.name = "S", .fallback = kFlexClockBound}},
         .plan = flexrr,
         .policy = flexrr_policy},
    };
}

}  // namespace cohort
