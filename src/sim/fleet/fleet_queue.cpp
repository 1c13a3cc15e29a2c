#include "sim/fleet/fleet_queue.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

bool may_overtake(int free, int head, int candidate, std::span<const int> running) {
    if (candidate > free) {
        return false;
    }
    int at_start = free;
    for (const int devices : running) {
        if (at_start >= head) {
            break;
        }
        at_start += devices;
    }
    return candidate <= at_start - head;
}

std::vector<int> place_workers(int workers, std::span<const int> free) {
    std::vector<int> order(free.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](int node) { return free[static_cast<std::size_t>(node)]; });
    std::vector<int> found;
    for (const int node : order) {
        const int left = workers - static_cast<int>(found.size());
        const int here = std::min(left, free[static_cast<std::size_t>(node)]);
        found.insert(found.end(), static_cast<std::size_t>(here), node);
    }
    check_invariant(static_cast<int>(found.size()) == workers, "a job that starts has devices");
    std::ranges::sort(found);
    return found;
}

FleetQueue::FleetQueue(int nodes, int devices_per_node)
    : FleetQueue(std::vector<int>(static_cast<std::size_t>(nodes), devices_per_node)) {
}

FleetQueue::FleetQueue(const std::vector<int>& devices)
    : free_by_node_(devices),
      devices_(std::accumulate(devices.begin(), devices.end(), 0)),
      free_(devices_) {
}

void FleetQueue::submit(int job, int workers) {
    check_invariant(workers >= 1 && workers <= devices_, "a job that waits fits on the cluster");
    waiting_.push_back({.job = job, .workers = workers});
}

std::vector<int> FleetQueue::sizes_by_end(const std::function<double(int job)>& left_s) const {
    std::vector<std::pair<double, int>> jobs;
    for (const auto& [job, where] : running_) {
        jobs.emplace_back(left_s(job), job);
    }
    std::ranges::sort(jobs);
    std::vector<int> sizes;
    for (const auto& [left, job] : jobs) {
        sizes.push_back(static_cast<int>(running_.at(job).size()));
    }
    return sizes;
}

std::optional<FleetQueue::Start> FleetQueue::next(const std::function<double(int job)>& left_s) {
    auto found = waiting_.begin();
    if (found != waiting_.end() && found->workers > free_) {
        const int head = found->workers;
        const std::vector<int> running = sizes_by_end(left_s);
        found = std::find_if(found + 1, waiting_.end(), [&](const Waiting& one) {
            return may_overtake(free_, head, one.workers, running);
        });
    }
    if (found == waiting_.end()) {
        return std::nullopt;
    }
    Start start{.job = found->job, .worker_nodes = place_workers(found->workers, free_by_node_)};
    waiting_.erase(found);
    for (const int node : start.worker_nodes) {
        --free_on(node);
        --free_;
    }
    running_[start.job] = start.worker_nodes;
    return start;
}

void FleetQueue::finish(int job) {
    const auto over = running_.extract(job);
    check_invariant(!over.empty(), "a job that ends was started");
    for (const int node : over.mapped()) {
        ++free_on(node);
        ++free_;
    }
}

void FleetQueue::lose(int node) {
    --free_on(node);
    --free_;
    --devices_;
}

std::vector<int> FleetQueue::give_up() {
    std::vector<int> jobs;
    std::erase_if(waiting_, [&](const Waiting& one) {
        if (one.workers > devices_) {
            jobs.push_back(one.job);
        }
        return one.workers > devices_;
    });
    return jobs;
}

}  // namespace cohort
