#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sched/modes/policy_base.hpp"
#include "sched/modes/switch_brake.hpp"

namespace cohort {

/// The choice of a rule.
struct StarPlan {
    enum class Kind : std::uint8_t { kAll, kOrder, kGroups, kRing, kEach };
    Kind kind = Kind::kAll;
    int order = 0;                         ///< kOrder, kRing: x
    std::vector<std::vector<int>> groups;  ///< kGroups, kEach; kRing: its members; worker indices
    friend bool operator==(const StarPlan&, const StarPlan&) = default;
};

/// Input of a rule.
struct StarLook {
    std::vector<double> own_s;  ///< predicted, in the order of live()
    double batch = 1;           ///< b
    double reference_batch = 1;
    double noise_scale = 1;

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(own_s.size()); }
    [[nodiscard]] double fastest() const { return *std::min_element(own_s.begin(), own_s.end()); }
    [[nodiscard]] double slowest() const { return *std::max_element(own_s.begin(), own_s.end()); }
};

/// STAR's published rules as modes: ssgd while no worker is predicted to straggle, else the choice
/// of the rule. docs/choosers.md lists the details that the publication leaves open.
class StarPolicy : public PolicyBase {
public:
    using PolicyBase::PolicyBase;

    Decision start() final;
    [[nodiscard]] bool wants_load() const final { return true; }
    [[nodiscard]] bool wants_gradients() const final { return true; }

protected:
    static constexpr double kGain = 1.05;  ///< least gain for a change between plans for stragglers

    /// The choice of the rule when a worker straggles.
    [[nodiscard]] virtual StarPlan choose(const StarLook& look) const = 0;
    /// Whether a worker straggles, so that the rule applies. @param straggling  the state so far
    [[nodiscard]] virtual bool straggles(const StarLook& look, bool straggling) const;
    /// Seconds per unit of progress by the rule.
    [[nodiscard]] virtual double cost(const StarPlan& plan, const StarLook& look) const = 0;
    /// Plans to list.
    [[nodiscard]] virtual std::vector<StarPlan> rivals(const StarLook& look) const = 0;
    [[nodiscard]] virtual std::string why(const StarLook& look) const;

    /// Positions in live() as worker indices, in lists.
    [[nodiscard]] std::vector<std::vector<int>> named(std::vector<std::vector<int>> groups) const;
    /// The way back.
    [[nodiscard]] std::vector<std::vector<int>> positions(
        std::vector<std::vector<int>> groups) const;

    Decision adapt(const Telemetry& telemetry) final;
    Decision remake(std::string reason) final;

private:
    [[nodiscard]] StarLook look_at(std::vector<double> own_s) const;
    [[nodiscard]] StarPlan wanted_plan(const StarLook& look);
    [[nodiscard]] bool pays(const StarPlan& wanted, const StarLook& look) const;
    [[nodiscard]] std::string name_of(const StarPlan& plan) const;
    [[nodiscard]] SyncPlan plan_of(const StarPlan& wanted, const StarLook& look) const;
    [[nodiscard]] double samples_s(const StarPlan& plan, const StarLook& look) const;
    [[nodiscard]] DecisionRecord record(const StarLook& look, const std::string& reason) const;
    [[nodiscard]] Decision change_to(StarPlan wanted, const StarLook& look, std::string reason);

    StarPlan current_;
    bool straggling_ = false;
    double noise_scale_ = 0;  ///< 0: not known
    SwitchBrake brake_;
};

}  // namespace cohort
