#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// Whether a job may overtake the head of a queue: it fits now, and even if it never ended it would
/// leave enough devices to the head when enough running jobs have ended in the order in which they
/// are expected to. So it only gets devices that the head cannot use at its estimated start (as
/// EASY back-filling of jobs of unknown length: D. Lifka, The ANL/IBM SP Scheduling System, 1995).
/// Pure.
/// @param free, head, candidate  devices: unused, needed by the head (> free), needed by the job
/// @param running  devices of each running job, in the order in which they are expected to end
[[nodiscard]] bool may_overtake(int free, int head, int candidate, std::span<const int> running);

/// Nodes of a job's workers: as few as possible, and of those that do the emptiest, the first ones
/// on ties. Worker i comes before worker i + 1 in order of nodes. Pure.
/// @param free  devices by node  @param workers  at most all of these
[[nodiscard]] std::vector<int> place_workers(int workers, std::span<const int> free);

/// Jobs that wait for devices, first come first served with back-filling (may_overtake), and the
/// devices of all nodes. Pure, one thread.
class FleetQueue {
public:
    struct Start {
        int job = 0;
        std::vector<int> worker_nodes;
    };

    FleetQueue(int nodes, int devices_per_node);
    /// Nodes with so many devices each.
    explicit FleetQueue(const std::vector<int>& devices);

    /// A job arrives. @param workers 1 .. all devices  Errors: std::logic_error for more.
    void submit(int job, int workers);
    [[nodiscard]] int devices() const noexcept { return devices_; }
    /// The next job to start now; its devices are taken. To be asked until there is none.
    /// @param left_s  estimate of how long a running job goes on, for may_overtake
    [[nodiscard]] std::optional<Start> next(const std::function<double(int job)>& left_s);
    /// A started job is over: its devices are free.
    void finish(int job);
    /// A free device of a node is no more.
    void lose(int node);
    /// Jobs that wait for more devices than there are since some were lost; they wait no more.
    [[nodiscard]] std::vector<int> give_up();

    [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

private:
    struct Waiting {
        int job = 0;
        int workers = 0;
    };
    [[nodiscard]] int& free_on(int node) { return free_by_node_[static_cast<std::size_t>(node)]; }
    /// Devices of running jobs, in the order in which they are expected to end.
    [[nodiscard]] std::vector<int> sizes_by_end(const std::function<double(int job)>& left_s) const;

    std::vector<int> free_by_node_;  ///< free devices
    int devices_;                    ///< of all nodes
    int free_;
    std::deque<Waiting> waiting_;
    std::map<int, std::vector<int>> running_;  ///< nodes of workers, by job
};

}  // namespace cohort
