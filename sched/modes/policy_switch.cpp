#include <algorithm>
#include <utility>

#include "sched/modes/batch_balance.hpp"
#include "sched/modes/policies.hpp"
#include "sched/modes/policy_base.hpp"

// ssgd for a share of the budget, then asgd (Li et al. 2021).
namespace cohort {

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

namespace {

/// While a worker is a straggler asgd replaces ssgd, and its samples do not count for the share.
class SyncSwitchPolicy final : public PolicyBase {
public:
    SyncSwitchPolicy(Mode mode, const ModeSetting& setting, double share)
        : PolicyBase(std::move(mode), setting),
          share_(share),
          waiting_(share > 0),
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
        const double slowest = *std::max_element(times().begin(), times().end());
        const double others = median_of(times());
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

}  // namespace

std::unique_ptr<ModePolicy> make_sync_switch_policy(Mode mode, const ModeSetting& setting) {
    const double share = mode.values.at(0);
    return std::make_unique<SyncSwitchPolicy>(std::move(mode), setting, share);
}

}  // namespace cohort
