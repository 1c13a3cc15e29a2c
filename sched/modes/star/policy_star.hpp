#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sched/modes/policy_base.hpp"

namespace cohort {

/// Keeps a chooser from following what changes faster than it can: a change must be wanted at
/// several looks in a row, at eight times as many after each change that did not last long; half of
/// that is forgotten in a thousand looks.
class SwitchBrake {
public:
    /// At a look: nothing is wanted.
    void content() {
        ++looks_;
        wanted_ = 0;
    }
    /// At a look: a change is wanted. @param side  to which; another one counts from the start
    /// @return it has been wanted for long enough, and is made
    [[nodiscard]] bool wants(int side) {
        ++looks_;
        wanted_ = side == side_ ? wanted_ + 1 : 1;
        side_ = side;
        if (wanted_ < patience()) {
            return false;
        }
        made();
        return true;
    }

private:
    static constexpr int kLeast = 2;  ///< looks
    static constexpr int kMore = 8;   ///< times
    static constexpr int kMost = 256;
    static constexpr int kLasts = 24;            ///< times the patience
    static constexpr std::int64_t kHalf = 1000;  ///< looks without a change

    [[nodiscard]] int patience() const {
        constexpr std::int64_t kHalvings = 8;
        const std::int64_t halvings = std::min((looks_ - made_at_) / kHalf, kHalvings);
        return std::max(kLeast, patience_ >> static_cast<int>(halvings));
    }
    void made() {
        const int before = patience();
        const bool lasted = looks_ - made_at_ >= static_cast<std::int64_t>(kLasts) * before;
        patience_ = lasted ? std::max(kLeast, before / 2) : std::min(kMost, kMore * before);
        made_at_ = looks_;
        wanted_ = 0;
    }

    int patience_ = kLeast;
    int wanted_ = 0;  ///< looks in a row
    int side_ = 0;
    std::int64_t looks_ = 0;
    std::int64_t made_at_ = -static_cast<std::int64_t>(kLasts) * kMost;
};

/// The choice of a rule.
struct StarPlan {
    enum class Kind : std::uint8_t { kAll, kOrder, kGroups, kRing, kEach };
    Kind kind = Kind::kAll;
    int order = 0;  ///< kOrder, kRing: x
    std::vector<std::vector<int>>
        groups;  ///< kGroups, kEach; kRing: its members; by StarLook::own_s
    friend bool operator==(const StarPlan&, const StarPlan&) = default;
};

/// Input of a rule.
struct StarLook {
    std::vector<double> own_s;  ///< predicted, in the order of live()
    double batch = 1;           ///< b
    double reference_batch = 1;
    double noise_scale = 1;

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(own_s.size()); }
    [[nodiscard]] double fastest() const { return std::ranges::min(own_s); }
    [[nodiscard]] double slowest() const { return std::ranges::max(own_s); }
    /// Of a group, 0 of none.
    [[nodiscard]] double slowest_of(const std::vector<int>& group) const {
        double slowest = 0;
        for (const int i : group) {
            slowest = std::max(slowest, own_s.at(static_cast<std::size_t>(i)));
        }
        return slowest;
    }
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

    Decision adapt(const Telemetry& telemetry) final;
    Decision remake(std::string reason) final;

private:
    [[nodiscard]] StarLook look_at(std::vector<double> own_s) const;
    [[nodiscard]] StarPlan wanted_plan(const StarLook& look);
    [[nodiscard]] bool pays(const StarPlan& wanted, const StarLook& look) const;
    [[nodiscard]] std::string name_of(const StarPlan& plan) const;
    [[nodiscard]] SyncPlan plan_of(const StarPlan& wanted, const StarLook& look) const;
    [[nodiscard]] double samples_s(const StarPlan& plan, const StarLook& look) const;
    [[nodiscard]] double worth(const StarPlan& plan, const StarLook& look) const;
    [[nodiscard]] DecisionRecord record(const StarLook& look, const std::string& reason) const;
    [[nodiscard]] Decision change_to(StarPlan wanted, const StarLook& look, std::string reason);

    StarPlan current_;
    bool straggling_ = false;
    double noise_scale_ = 0;  ///< 0: not known
    SwitchBrake brake_;
};

}  // namespace cohort
