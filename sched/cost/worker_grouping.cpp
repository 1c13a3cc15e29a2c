#include "sched/cost/worker_grouping.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/statistics.hpp"

namespace cohort {
namespace {

constexpr double kSimilar = 1.3;                 ///< ratio of neighbours' times
constexpr double kSpread = kSimilar * kSimilar;  ///< ratio of a group's ends

struct TimedWorker {
    double time = 0;
    int worker = 0;
};

std::vector<TimedWorker> by_time(const std::vector<int>& live, const std::vector<double>& times) {
    check_invariant(live.size() == times.size(), "a time for each worker");
    std::vector<TimedWorker> order;
    for (std::size_t i = 0; i < live.size(); ++i) {
        order.push_back({.time = times[i], .worker = live[i]});
    }
    std::ranges::stable_sort(order, {}, &TimedWorker::time);
    return order;
}

/// Where order[begin, end) is split; `end` when it is not.
std::size_t part_at(const std::vector<TimedWorker>& order, std::size_t begin, std::size_t end) {
    std::size_t widest = end;
    double ratio = 1;
    for (std::size_t i = begin + 1; i < end; ++i) {
        const double gap = order[i].time / order[i - 1].time;
        if (gap > ratio) {
            ratio = gap;
            widest = i;
        }
    }
    const bool parts = ratio > kSimilar || order[end - 1].time / order[begin].time > kSpread;
    return parts ? widest : end;
}

}  // namespace

std::vector<double> own_times(const std::vector<double>& own_seconds,
                              const std::vector<int>& live) {
    std::vector<double> times;
    std::vector<double> known;
    for (const int worker : live) {
        const auto index = static_cast<std::size_t>(worker);
        times.push_back(index < own_seconds.size() ? own_seconds[index] : 0);
        if (times.back() > 0) {
            known.push_back(times.back());
        }
    }
    const double usual = known.empty() ? 1 : upper_median(std::move(known));
    std::ranges::replace_if(
        times, [](double time) { return !(time > 0); }, usual);
    return times;
}

std::vector<std::vector<int>> similar_groups(const std::vector<int>& live,
                                             const std::vector<double>& times) {
    const std::vector<TimedWorker> order = by_time(live, times);
    std::vector<std::vector<int>> groups;
    std::vector<std::size_t> ends = {order.size()};  // of groups still to be cut, nearest last
    std::size_t begin = 0;
    while (begin < order.size()) {
        const std::size_t at = part_at(order, begin, ends.back());
        if (at != ends.back()) {
            ends.push_back(at);
            continue;
        }
        groups.emplace_back();
        for (; begin < ends.back(); ++begin) {
            groups.back().push_back(order[begin].worker);
        }
        std::ranges::sort(groups.back());
        ends.pop_back();
    }
    return groups;
}

std::vector<int> fastest(const std::vector<int>& live, const std::vector<double>& times,
                         int count) {
    std::vector<int> chosen;
    for (const TimedWorker& one : by_time(live, times)) {
        if (static_cast<int>(chosen.size()) < count) {
            chosen.push_back(one.worker);
        }
    }
    std::ranges::sort(chosen);
    return chosen;
}

int best_quorum(std::vector<double> times) {
    std::ranges::sort(times);
    int best = 1;
    double most = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
        const double work = static_cast<double>(i + 1) / times[i];
        if (work >= most) {
            most = work;
            best = static_cast<int>(i) + 1;
        }
    }
    return best;
}

double pace_of(const std::vector<std::vector<int>>& groups, const std::vector<int>& live,
               const std::vector<double>& times) {
    double pace = 0;
    for (const std::vector<int>& group : groups) {
        double slowest = 0;
        int size = 0;
        for (const int worker : group) {
            const auto found = std::ranges::find(live, worker);
            if (found != live.end()) {
                slowest = std::max(slowest, times[static_cast<std::size_t>(found - live.begin())]);
                ++size;
            }
        }
        pace += size > 0 ? size / slowest : 0;
    }
    return pace;
}

}  // namespace cohort
