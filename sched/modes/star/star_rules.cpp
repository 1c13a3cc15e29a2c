#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cohort/core/error.hpp"
#include "cohort/sched/chooser.hpp"
#include "cohort/sched/timing.hpp"

// STAR's rules as published, and the one change without which dynamic could never be chosen:
// T(x*) <= T(1) <= T_dyn, since x* is a minimum and groups make no more updates than single workers
// do. Cost: N log N; groups N^2.
namespace cohort {
namespace {

std::vector<double> ascending(std::span<const double> own_s) {
    check_invariant(!own_s.empty() && std::ranges::all_of(own_s, [](double s) { return s > 0; }),
                    "times of workers");
    std::vector<double> sorted(own_s.begin(), own_s.end());
    std::ranges::sort(sorted);
    return sorted;
}

/// t_i(x): between 1/sum(1/tau) and the slowest time in the same proportion as tau_(x) is between
/// the fastest and the slowest.
double interpolated_update_s(const std::vector<double>& sorted, int order) {
    const double rate = std::accumulate(sorted.begin(), sorted.end(), 0.0,
                                        [](double sum, double s) { return sum + 1 / s; });
    const double least = sorted.front();
    const double most = sorted.back();
    const double here = sorted[static_cast<std::size_t>(order) - 1];
    const bool last = static_cast<std::size_t>(order) == sorted.size();
    const double share = last ? 1 : most > least ? (here - least) / (most - least) : 0;
    return 1 / rate + (most - 1 / rate) * share;
}

/// First order whose cost is less than the next one's, else N.
int first_minimum(int workers, const std::function<double(int)>& cost) {
    double here = cost(1);
    for (int x = 1; x < workers; ++x) {
        const double next = cost(x + 1);
        if (here < next) {
            return x;
        }
        here = next;
    }
    return workers;
}

struct TimedGroup {
    std::vector<int> workers;
    double mean = 0;

    [[nodiscard]] double size() const { return static_cast<double>(workers.size()); }
};

double distance(const TimedGroup& u, const TimedGroup& v) {
    return std::sqrt(2 * u.size() * v.size() / (u.size() + v.size())) * std::abs(u.mean - v.mean);
}

}  // namespace

bool keeps_ssgd(std::span<const double> own_s, double batch, double noise_scale) {
    const auto workers = static_cast<double>(own_s.size());
    if (own_s.size() < 2) {
        return true;
    }
    const double slowest = ascending(own_s).back();
    const double mean = std::accumulate(own_s.begin(), own_s.end(), 0.0) / workers;
    return updates_needed(workers * batch, noise_scale) * slowest <=
           updates_needed((workers - 1) * batch, noise_scale) * mean;
}

/// On a line the two nearest groups are always neighbours.
std::vector<std::vector<int>> star_groups(std::span<const double> own_s, double cut) {
    std::vector<TimedGroup> groups;
    for (std::size_t i = 0; i < own_s.size(); ++i) {
        groups.push_back({.workers = {static_cast<int>(i)}, .mean = own_s[i]});
    }
    std::ranges::stable_sort(groups, {}, &TimedGroup::mean);
    while (groups.size() > 1) {
        std::size_t nearest = 1;
        for (std::size_t i = 2; i < groups.size(); ++i) {
            const bool nearer =
                distance(groups[i - 1], groups[i]) < distance(groups[nearest - 1], groups[nearest]);
            nearest = nearer ? i : nearest;
        }
        TimedGroup& into = groups[nearest - 1];
        const TimedGroup& from = groups[nearest];
        if (distance(into, from) >= cut) {
            break;
        }
        into.mean =
            (into.size() * into.mean + from.size() * from.mean) / (into.size() + from.size());
        into.workers.insert(into.workers.end(), from.workers.begin(), from.workers.end());
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(nearest));
    }
    std::vector<std::vector<int>> workers;
    for (TimedGroup& group : groups) {
        std::ranges::sort(group.workers);
        workers.push_back(std::move(group.workers));
    }
    return workers;
}

double star_dynamic_cost(std::span<const double> own_s, const std::vector<std::vector<int>>& groups,
                         double batch, double noise_scale) {
    double rate = 0;
    for (const std::vector<int>& group : groups) {
        double slowest = 0;
        for (const int worker : group) {
            slowest = std::max(slowest, own_s[static_cast<std::size_t>(worker)]);
        }
        const double samples = static_cast<double>(group.size()) * batch;
        rate += 1 / (updates_needed(samples, noise_scale) * slowest);
    }
    return 1 / rate;
}

double star_static_cost(std::span<const double> own_s, int order, double batch, double noise_scale,
                        bool exact) {
    const double update_s =
        exact ? static_update_s(own_s, order) : interpolated_update_s(ascending(own_s), order);
    return updates_needed(order * batch, noise_scale) * update_s;
}

/// With equal costs static x-order is kept: simulated times are accurate to a thousandth.
StarChoice star_choice(std::span<const double> own_s, double batch, double noise_scale, bool exact,
                       double cut) {
    constexpr double kEqual = 1e-3;
    const std::vector<double> sorted = ascending(own_s);
    const auto published = [&](int x) {
        return updates_needed(x * batch, noise_scale) * interpolated_update_s(sorted, x);
    };
    StarChoice choice;
    choice.order = first_minimum(static_cast<int>(own_s.size()), published);
    choice.cost = published(choice.order);
    choice.groups = star_groups(own_s, cut);
    choice.dynamic_cost = star_dynamic_cost(own_s, choice.groups, batch, noise_scale);
    const double rival =
        exact ? star_static_cost(own_s, choice.order, batch, noise_scale, true) : choice.cost;
    choice.dynamic = choice.dynamic_cost < (1 - kEqual) * rival;
    return choice;
}

double star_ring_cost(std::span<const double> own_s, int order, double batch, double noise_scale) {
    return updates_needed(order * batch, noise_scale) *
           ascending(own_s).at(static_cast<std::size_t>(order) - 1);
}

int star_ring_order(std::span<const double> own_s, double batch, double noise_scale) {
    const std::vector<double> sorted = ascending(own_s);
    return first_minimum(static_cast<int>(sorted.size()), [&](int x) {
        return updates_needed(x * batch, noise_scale) * sorted[static_cast<std::size_t>(x) - 1];
    });
}

}  // namespace cohort
