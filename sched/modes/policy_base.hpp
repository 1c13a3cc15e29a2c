#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cohort/sched/policy.hpp"

namespace cohort {

/// What policies have in common: they know who is live and how fast, make the plan anew when
/// workers leave or come, and look at the times once in N accepted pushes, when each worker has
/// pushed a few times. What they want to change they must want at two looks in a row.
class PolicyBase : public ModePolicy {
public:
    PolicyBase(Mode mode, const ModeSetting& setting);

    Decision start() override;
    Decision decide(const Telemetry& telemetry) final;
    [[nodiscard]] bool looks(const RunCounts& counts) const override;

protected:
    /// Whether it is time for a look; then times() are new and the next look is after as many
    /// pushes as there are workers.
    [[nodiscard]] bool due();
    /// Mean of the own times of the next iterations (1..kMaxHorizon) in the order of live(): as
    /// forecast, or else times().
    [[nodiscard]] std::vector<double> predicted_times(const Telemetry& telemetry,
                                                      int iterations) const;
    /// Between changes of membership.
    virtual Decision adapt(const Telemetry& telemetry);
    /// Workers left or came; live() and times() are those of who is there now.
    virtual Decision regroup(const Telemetry& /*telemetry*/, std::string reason) {
        return remake(std::move(reason));
    }
    /// The plan, made anew.
    virtual Decision remake(std::string reason);
    /// At a look: would a change pay now?
    [[nodiscard]] virtual bool wishes() const { return false; }
    /// Carries it out.
    [[nodiscard]] virtual Decision change() { return {}; }

    [[nodiscard]] const Mode& mode() const noexcept { return mode_; }
    [[nodiscard]] const ModeSetting& setting() const noexcept { return setting_; }
    [[nodiscard]] const std::vector<int>& live() const noexcept { return live_; }
    /// Own times, in the order of live().
    [[nodiscard]] const std::vector<double>& times() const noexcept { return times_; }

private:
    bool note(const Telemetry& telemetry);
    void index_live();

    Mode mode_;
    ModeSetting setting_;
    std::vector<int> live_;
    std::vector<double> times_;
    std::int64_t pushes_ = 0;
    std::int64_t next_look_ = 0;
    bool wished_ = false;  ///< at the look before
};

/// "3 5 7"
[[nodiscard]] std::string list_of(const std::vector<int>& workers);

}  // namespace cohort
