#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/sched/policy.hpp"

namespace cohort {

/// Common part of policies: keeps the live workers and their times, makes a new plan when workers
/// are lost or join, and looks at the times once in N accepted pushes, when each worker has pushed
/// a few times. A change must be wanted at two looks in a row.
class PolicyBase : public ModePolicy {
public:
    PolicyBase(Mode mode, const ModeSetting& setting);

    Decision start() override;
    Decision decide(const Telemetry& telemetry) final;
    [[nodiscard]] bool looks(const RunCounts& counts) const override;

protected:
    /// Whether a look is due; then times() are updated and the next look is after as many pushes as
    /// there are workers.
    [[nodiscard]] bool due();
    /// Mean of the own times of the next iterations (1..kMaxHorizon) in the order of live(): as
    /// forecast, or else times().
    [[nodiscard]] std::vector<double> predicted_times(const Telemetry& telemetry,
                                                      int iterations) const;
    /// Decision while the live workers stay the same.
    virtual Decision adapt(const Telemetry& telemetry);
    /// Decision after workers were lost or joined; live() and times() are those of the live
    /// workers.
    virtual Decision regroup(const Telemetry& /*telemetry*/, std::string reason) {
        return remake(std::move(reason));
    }
    /// Makes the plan again.
    virtual Decision remake(std::string reason);
    /// A plan that start() or remake() has made.
    virtual void adopt(const SyncPlan& /*plan*/) {}
    /// At a look: would a change pay now?
    [[nodiscard]] virtual bool wishes() const { return false; }
    /// Makes the change.
    [[nodiscard]] virtual Decision change() { return {}; }

    /// As ModeSetting::admits. A plan that is refused may be wanted again at once.
    [[nodiscard]] bool admitted(const SyncPlan& wanted, double worth) const {
        return !setting_.admits || setting_.admits(wanted, worth);
    }

    [[nodiscard]] const Mode& mode() const noexcept { return mode_; }
    [[nodiscard]] const ModeSetting& setting() const noexcept { return setting_; }
    [[nodiscard]] const std::vector<int>& live() const noexcept { return live_; }
    /// Own times, in the order of live().
    [[nodiscard]] const std::vector<double>& times() const noexcept { return times_; }

private:
    bool note(const Telemetry& telemetry);

    Mode mode_;
    ModeSetting setting_;
    std::vector<int> live_;
    std::vector<double> times_;
    std::int64_t pushes_ = 0;
    std::int64_t next_look_ = 0;
    bool wished_ = false;  ///< at the look before
};

/// Makes a mode's policy.
template <class Policy>
[[nodiscard]] std::unique_ptr<ModePolicy> policy_of(Mode mode, const ModeSetting& setting) {
    return std::make_unique<Policy>(std::move(mode), setting);
}

/// Makes the policy of a mode that changes plans or batches while it runs.
using PolicyMaker = std::unique_ptr<ModePolicy>(Mode mode, const ModeSetting& setting);

[[nodiscard]] PolicyMaker make_ssgd_or_asgd_policy;
[[nodiscard]] PolicyMaker make_star_policy;
[[nodiscard]] PolicyMaker make_star_exact_policy;
[[nodiscard]] PolicyMaker make_star_ml_policy;
/// The policy of a mode, which also measures what its plans achieve (ModePolicy::take_windows).
[[nodiscard]] PolicyMaker make_recording_policy;

/// saps:auto: D in reference batches for a noise scale, all in samples.
[[nodiscard]] double lag_bound_of(double noise_scale, double batch, double reference_batch);

}  // namespace cohort
