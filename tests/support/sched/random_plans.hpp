#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort::test {

/// Uniform choices from one seed.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {  // splitmix64
        state_ += 0x9e3779b97f4a7c15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
    bool one_in(int n) { return below(n) == 0; }
    template <class T>
    T pick(std::initializer_list<T> values) {
        return values.begin()[below(static_cast<int>(values.size()))];
    }

private:
    std::uint64_t state_;
};

inline std::vector<CohortSpec> random_cohorts(Dice& dice, int workers,
                                              const std::vector<bool>& live) {
    std::vector<int> order;
    for (int worker = 0; worker < workers; ++worker) {
        if (live[static_cast<std::size_t>(worker)] || dice.one_in(2)) {
            order.insert(order.begin() + dice.below(static_cast<int>(order.size()) + 1), worker);
        }
    }
    std::vector<CohortSpec> cohorts;
    for (const int worker : order) {
        if (cohorts.empty() || dice.one_in(4)) {
            cohorts.push_back({.members = {worker}, .riders = {}});
        } else if (dice.one_in(5)) {
            cohorts.back().riders.push_back(worker);
        } else {
            cohorts.back().members.push_back(worker);
        }
    }
    for (CohortSpec& cohort : cohorts) {
        cohort.count = dice.pick({CohortSpec::Count::kWorkers, CohortSpec::Count::kPushes});
        const int members = static_cast<int>(cohort.members.size());
        const bool pushes = cohort.count == CohortSpec::Count::kPushes;
        cohort.quorum = 1 + dice.below(pushes ? 2 * members : members);
        cohort.fresh_only = dice.one_in(3);
    }
    return cohorts;
}

inline SyncPlan random_plan(Dice& dice, int workers, const std::vector<bool>& live) {
    SyncPlan plan;
    plan.name = "random";
    plan.cohorts = random_cohorts(dice, workers, live);
    using Late = SyncPlan::Late;
    plan.late = dice.pick({Late::kMerge, Late::kMerge, Late::kMerge, Late::kDrop, Late::kAlone});
    plan.late_rounds = dice.one_in(4) ? std::optional<int>(dice.below(3)) : std::nullopt;
    plan.others = dice.one_in(4) ? SyncPlan::Others::kInterrupt : SyncPlan::Others::kContinue;
    if (dice.one_in(3)) {
        plan.release = SyncPlan::Release::kOnArrival;
        plan.window = 1 + dice.below(4);
    }
    if (dice.one_in(3)) {
        using Action = SyncPlan::LagAction;
        plan.lag_rule = {.bound = 0.25 * dice.below(9),
                         .action = dice.pick({Action::kRefresh, Action::kDrop, Action::kDiscount})};
    }
    if (dice.one_in(3)) {
        plan.clock_bound = dice.below(4);
    }
    if (dice.one_in(3)) {
        plan.weight = [](const FiredPush& push, const FiringSet& set) {
            EXPECT_GT(set.workers, -1);
            return 1.0 / static_cast<double>(push.lag_updates + 1);
        };
    }
    if (dice.one_in(5)) {
        plan.accept = [](const PushTicket& ticket) { return ticket.gradient_norm < 0.8; };
    }
    plan.work = dice.one_in(4) ? Work::kDelta : Work::kGradient;
    plan.look_ahead = dice.one_in(2);
    if (dice.one_in(4)) {
        plan.lr_unit = SyncPlan::LrUnit::kPublished;
        plan.published_unit = 8;
    }
    return plan;
}

/// The name of any mode, with parameters for `workers`.
inline std::string random_mode(Dice& dice, int workers) {
    const int some = 1 + dice.below(workers);
    const double real = 0.25 * dice.below(9);
    switch (dice.below(25)) {
        case 24: return fmt::format("quorum:{}", some);
        case 0: return "ssgd";
        case 1: return fmt::format("static:{}", some);
        case 2: return fmt::format("ksync:{}", some);
        case 3: return fmt::format("backup:{}", some - 1);
        case 4: return fmt::format("lgc:{}", some - 1);
        case 5: return fmt::format("kbatch-sync:{}", some);
        case 6: return fmt::format("kbatch-async:{}", some);
        case 7: return fmt::format("softsync:{}", some);
        case 8: return fmt::format("localsgd:{}", some);
        case 9: return fmt::format("hier:{}:2", some);
        case 10: return "asgd";
        case 11: return fmt::format("ssp:{}", some - 1);
        case 12: return "dynsgd";
        case 13: return fmt::format("adadelay:1,{}", real);
        case 14: return fmt::format("dcasgd:{}", real);
        case 15: return fmt::format("saps:{}:refresh", real);
        case 16: return fmt::format("saps:{}:drop", real);
        case 17: return fmt::format("saps:{}:discount", real);
        case 18: return "zeno++";
        case 19: return "dynamic";
        case 20: return "cutoff";
        case 21: return "lb-bsp";
        case 22: return fmt::format("sync-switch:{}", 0.5 * dice.below(3));
        default: return fmt::format("flexrr:{}", some);
    }
}

}  // namespace cohort::test
