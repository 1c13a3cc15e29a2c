#include "sched/modes/adaptive/plan_space.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

#include "sched/modes/batch_balance.hpp"
#include "sched/plan/lease_work.hpp"

// The candidates of choosers.
namespace cohort {
namespace {

constexpr std::string_view kLocal = "localsgd";
constexpr auto kStepCounts = std::to_array<int>({2, 4, 8, 16});

/// N - 1, N - 2, N - 4, ...: quorums far below N differ little from their neighbours.
std::vector<int> quorums(int live) {
    constexpr int kMany = 128;
    const int step = live > kMany ? 4 : 2;
    std::vector<int> found;
    for (int missing = 1; missing < live - 1; missing *= step) {
        found.push_back(live - missing);
    }
    return found;
}

/// Workers of the same cohort share its samples.
void balance(PlanOption& option, const ModeSetting& setting, const LoadEstimate& load) {
    const int steps = steps_per_push(option.plan);
    for (const CohortSpec& cohort : option.plan.cohorts) {
        std::vector<CostLine> costs;
        for (const int member : cohort.members) {
            const auto i = static_cast<std::size_t>(member);
            costs.push_back(
                {.fixed_s = load.own_s(i, 0, steps), .sample_s = steps * load.cost.at(i).sample_s});
        }
        const std::vector<std::int64_t> samples = balanced_batches(costs, setting.batch);
        for (std::size_t i = 0; i < samples.size(); ++i) {
            option.batches.at(static_cast<std::size_t>(cohort.members[i])) = samples[i];
        }
    }
}

}  // namespace

std::string PlanShape::name() const {
    constexpr std::string_view kBalanced = "balanced";
    return !balanced                  ? mode
           : kind() == PaceKind::kAll ? std::string(kBalanced)
                                      : fmt::format("{} {}", mode, kBalanced);
}

PaceKind PlanShape::kind() const {
    return mode.starts_with(kLocal) ? PaceKind::kLocal
           : mode == default_mode(Architecture::kServers) ||
                   mode == default_mode(Architecture::kRing)
               ? PaceKind::kAll
               : PaceKind::kSome;
}

std::vector<PlanShape> plan_shapes(Architecture architecture, int live, int slow,
                                   bool local_steps) {
    const std::string all = default_mode(architecture);
    const bool ring = architecture == Architecture::kRing;
    std::vector<PlanShape> shapes{{.mode = all}};
    if (live < 2) {
        return shapes;
    }
    shapes.push_back({.mode = all, .balanced = true});
    std::vector<int> sizes;
    if (!ring) {
        sizes = quorums(live);
    } else if (slow > 0 && 2 * slow <= live) {
        sizes = {live - slow};
    }
    for (const int size : sizes) {
        const std::string some = fmt::format("{}:{}", ring ? "ring" : "quorum", size);
        shapes.push_back({.mode = some});
        if (ring) {
            shapes.push_back({.mode = some, .balanced = true});
        }
    }
    if (!ring) {
        shapes.push_back({.mode = "asgd"});
    }
    for (const int steps : local_steps ? std::span(kStepCounts) : std::span<const int>()) {
        for (const bool balanced : {false, true}) {
            shapes.push_back({.mode = fmt::format("{}:{}", kLocal, steps), .balanced = balanced});
        }
    }
    return shapes;
}

PlanOption make_option(const PlanShape& shape, const ModeSetting& setting,
                       const LoadEstimate& load) {
    ModeSetting now = setting;
    now.continued = true;
    now.own_seconds.assign(setting.live.size(), 0);
    for (std::size_t i = 0; i < setting.live.size(); ++i) {
        if (setting.live[i]) {
            now.own_seconds[i] = load.own_s(i, setting.batch);
        }
    }
    PlanOption option{.shape = shape,
                      .plan = make_plan(shape.mode, now),
                      .batches = std::vector<std::int64_t>(setting.live.size(), setting.batch)};
    if (shape.balanced) {
        balance(option, setting, load);
    }
    option.plan.name = shape.name();
    option.plan.fresh_leases = true;
    return option;
}

std::vector<double> own_times_of(const SyncPlan& plan, const std::vector<std::int64_t>& batches,
                                 const LoadEstimate& load) {
    std::vector<double> own(batches.size(), 0);
    for (const CohortSpec& cohort : plan.cohorts) {
        for (const std::vector<int>* list : {&cohort.members, &cohort.riders}) {
            for (const int worker : *list) {
                const auto i = static_cast<std::size_t>(worker);
                own[i] = load.own_s(i, batches[i], steps_per_push(plan));
            }
        }
    }
    return own;
}

}  // namespace cohort
