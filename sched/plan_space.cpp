#include "plan_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "batch_balance.hpp"

// The plans that choosers choose from.
namespace cohort {
namespace {

constexpr int kGrid = 6;  ///< quorums, or sizes of rings

/// N - 1 downwards to about a third of N, the steps growing: what is far from all costs most.
std::vector<int> quorums(int live) {
    std::set<int> found;
    double missing = 1;
    const double factor = std::max(1.5, std::pow(live * 2.0 / 3, 1.0 / (kGrid - 1)));
    for (int i = 0; i < kGrid; ++i, missing *= factor) {
        const int quorum = live - static_cast<int>(std::lround(missing));
        if (quorum >= 2 && 3 * quorum >= live) {
            found.insert(quorum);
        }
    }
    return {found.rbegin(), found.rend()};
}

/// Workers of the same cohort share its samples.
void balance(PlanOption& option, const ModeSetting& setting, const LoadEstimate& load) {
    for (const CohortSpec& cohort : option.plan.cohorts) {
        std::vector<CostLine> costs;
        for (const int member : cohort.members) {
            const auto i = static_cast<std::size_t>(member);
            const CostLine& work = load.work.at(i);
            costs.push_back(
                {.fixed_s = work.fixed_s + load.transfer_s.at(i), .sample_s = work.sample_s});
        }
        const std::vector<std::int64_t> samples = balanced_batches(costs, setting.batch);
        for (std::size_t i = 0; i < samples.size(); ++i) {
            option.batches.at(static_cast<std::size_t>(cohort.members[i])) = samples[i];
        }
    }
}

}  // namespace

double LoadEstimate::own_s(std::size_t worker, std::int64_t samples) const {
    return work.at(worker).at(static_cast<double>(samples)) + transfer_s.at(worker) + crowd_s;
}

std::string PlanShape::name() const {
    constexpr std::string_view kBalanced = "balanced";
    const bool all =
        mode == default_mode(Architecture::kServers) || mode == default_mode(Architecture::kRing);
    return !balanced ? mode : all ? std::string(kBalanced) : fmt::format("{} {}", mode, kBalanced);
}

std::string PlanShape::family() const {
    return mode.substr(0, mode.find(':')) + (balanced ? " balanced" : "");
}

std::vector<PlanShape> plan_shapes(Architecture architecture, int live, int stragglers) {
    const std::string all = default_mode(architecture);
    std::vector<PlanShape> shapes{{.mode = all}};
    if (live < 2) {
        return shapes;
    }
    shapes.push_back({.mode = all, .balanced = true});
    if (architecture == Architecture::kRing) {
        for (const int members : quorums(live)) {
            shapes.push_back({.mode = fmt::format("ring:{}", members)});
            shapes.push_back({.mode = fmt::format("ring:{}", members), .balanced = true});
        }
        return shapes;
    }
    if (stragglers > 0 && 4 * stragglers <= live) {
        shapes.push_back({.mode = fmt::format("backup:{}", stragglers)});
    }
    for (const int quorum : quorums(live)) {
        shapes.push_back({.mode = fmt::format("static:{}", quorum)});
    }
    for (const bool balanced : {false, true}) {
        shapes.push_back({.mode = "dynamic", .balanced = balanced});
    }
    shapes.push_back({.mode = "saps"});
    shapes.push_back({.mode = "asgd"});
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

std::vector<double> own_times_of(const PlanOption& option, const LoadEstimate& load) {
    std::vector<double> own(option.batches.size(), 0);
    for (const CohortSpec& cohort : option.plan.cohorts) {
        for (const std::vector<int>* list : {&cohort.members, &cohort.riders}) {
            for (const int worker : *list) {
                const auto i = static_cast<std::size_t>(worker);
                own[i] = load.own_s(i, option.batches[i]);
            }
        }
    }
    return own;
}

}  // namespace cohort
