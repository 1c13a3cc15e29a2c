#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "cohort/core/statistics.hpp"
#include "sched/cost/worker_grouping.hpp"
#include "sched/modes/star/policy_star.hpp"

// STAR's rules, each as a policy.
namespace cohort {
namespace {

/// Orders to list: at most 18 on a geometric grid, and the chosen one.
std::vector<int> listed_orders(int workers, int chosen) {
    constexpr int kGrid = 17;
    std::vector<int> orders{chosen};
    for (int i = 0; i <= kGrid; ++i) {
        orders.push_back(static_cast<int>(std::lround(std::pow(workers, i / double{kGrid}))));
    }
    std::ranges::sort(orders);
    orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
    return orders;
}

/// STAR's two-mode rule, which itself decides when a worker is too slow.
class TwoModePolicy final : public StarPolicy {
public:
    using StarPolicy::StarPolicy;

protected:
    /// The rule has no other threshold: asgd must be a twentieth better, ssgd as good.
    [[nodiscard]] bool straggles(const StarLook& look, bool straggling) const override {
        const double waiting = cost({}, look);
        const double alone = cost(each(look), look);
        return waiting > (straggling ? 1 : kGain) * alone;
    }
    [[nodiscard]] StarPlan choose(const StarLook& look) const override {
        const bool keep = keeps_ssgd(look.own_s, look.batch, look.noise_scale);
        return keep ? StarPlan() : each(look);
    }
    [[nodiscard]] double cost(const StarPlan& plan, const StarLook& look) const override {
        const int workers = look.workers();
        if (plan.kind == StarPlan::Kind::kAll || workers == 1) {
            return updates_needed(workers * look.batch, look.noise_scale) * look.slowest();
        }
        const double sum = std::accumulate(look.own_s.begin(), look.own_s.end(), 0.0);
        return updates_needed((workers - 1) * look.batch, look.noise_scale) * sum / workers;
    }
    [[nodiscard]] std::vector<StarPlan> rivals(const StarLook& look) const override {
        return {StarPlan(), each(look)};
    }
    [[nodiscard]] std::string why(const StarLook& look) const override {
        return fmt::format("by the two-mode rule ssgd costs {:.2f} times what asgd costs",
                           cost({}, look) / cost(each(look), look));
    }

private:
    [[nodiscard]] static StarPlan each(const StarLook& look) {
        StarPlan plan{.kind = StarPlan::Kind::kEach, .groups = {}};
        for (int i = 0; i < look.workers(); ++i) {
            plan.groups.push_back({i});
        }
        return plan;
    }
};

/// STAR-H on servers: static x-order or dynamic.
class StarServersPolicy final : public StarPolicy {
public:
    /// @param cut  distance of groups; with `exact` a multiple of the median own time, else seconds
    StarServersPolicy(Mode mode, const ModeSetting& setting, bool exact, double cut)
        : StarPolicy(std::move(mode), setting), exact_(exact), cut_(cut) {}

protected:
    [[nodiscard]] StarPlan choose(const StarLook& look) const override {
        const StarChoice chosen = choice(look);
        return chosen.dynamic ? groups_of(chosen) : order_of(chosen.order, look);
    }
    [[nodiscard]] double cost(const StarPlan& plan, const StarLook& look) const override {
        if (plan.kind == StarPlan::Kind::kGroups) {
            return star_dynamic_cost(look.own_s, plan.groups, look.batch, look.noise_scale);
        }
        const int order = plan.kind == StarPlan::Kind::kAll ? look.workers() : plan.order;
        return star_static_cost(look.own_s, std::min(order, look.workers()), look.batch,
                                look.noise_scale, exact_);
    }
    /// Only the chosen order, as simulating its time takes long.
    [[nodiscard]] std::vector<StarPlan> rivals(const StarLook& look) const override {
        const StarChoice chosen = choice(look);
        std::vector<StarPlan> plans{groups_of(chosen)};
        if (exact_) {
            plans.push_back(order_of(chosen.order, look));
            plans.emplace_back();
        } else {
            for (const int order : listed_orders(look.workers(), chosen.order)) {
                plans.push_back(order_of(order, look));
            }
        }
        return plans;
    }

private:
    [[nodiscard]] StarChoice choice(const StarLook& look) const {
        const double cut = exact_ ? cut_ * upper_median(look.own_s) : cut_;
        return star_choice(look.own_s, look.batch, look.noise_scale, exact_, cut);
    }
    [[nodiscard]] static StarPlan groups_of(const StarChoice& choice) {
        return {.kind = StarPlan::Kind::kGroups, .groups = choice.groups};
    }
    /// static:N is ssgd.
    [[nodiscard]] static StarPlan order_of(int order, const StarLook& look) {
        return order == look.workers()
                   ? StarPlan()
                   : StarPlan{.kind = StarPlan::Kind::kOrder, .order = order, .groups = {}};
    }

    bool exact_;
    double cut_;
};

/// STAR-H on rings: the x fastest are members.
class StarRingPolicy final : public StarPolicy {
public:
    using StarPolicy::StarPolicy;

protected:
    [[nodiscard]] StarPlan choose(const StarLook& look) const override {
        return ring_of(star_ring_order(look.own_s, look.batch, look.noise_scale), look);
    }
    /// n(xb) times the slowest member's time.
    [[nodiscard]] double cost(const StarPlan& plan, const StarLook& look) const override {
        if (plan.kind == StarPlan::Kind::kAll) {
            return star_ring_cost(look.own_s, look.workers(), look.batch, look.noise_scale);
        }
        return updates_needed(plan.order * look.batch, look.noise_scale) *
               look.slowest_of(plan.groups.front());
    }
    [[nodiscard]] std::vector<StarPlan> rivals(const StarLook& look) const override {
        std::vector<StarPlan> plans;
        const int chosen = star_ring_order(look.own_s, look.batch, look.noise_scale);
        for (const int order : listed_orders(look.workers(), chosen)) {
            plans.push_back(ring_of(order, look));
        }
        return plans;
    }

private:
    [[nodiscard]] static StarPlan ring_of(int order, const StarLook& look) {
        if (order == look.workers()) {
            return {};
        }
        std::vector<int> all(look.own_s.size());
        std::iota(all.begin(), all.end(), 0);
        return {.kind = StarPlan::Kind::kRing,
                .order = order,
                .groups = {fastest(all, look.own_s, order)}};
    }
};

}  // namespace

std::unique_ptr<ModePolicy> make_ssgd_or_asgd_policy(Mode mode, const ModeSetting& setting) {
    return policy_of<TwoModePolicy>(std::move(mode), setting);
}

std::unique_ptr<ModePolicy> make_star_policy(Mode mode, const ModeSetting& setting) {
    if (setting.architecture == Architecture::kRing) {
        return std::make_unique<StarRingPolicy>(std::move(mode), setting);
    }
    return std::make_unique<StarServersPolicy>(std::move(mode), setting, false, kStarCut);
}

std::unique_ptr<ModePolicy> make_star_exact_policy(Mode mode, const ModeSetting& setting) {
    const double cut = mode.values.at(0);
    return std::make_unique<StarServersPolicy>(std::move(mode), setting, true, cut);
}

}  // namespace cohort
