#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "sim/job/servers_job.hpp"

namespace cohort {

/// A server of a virtual job, or who sums for a node: what it is asked to do waits in line, one
/// thing at a time.
class ServerLine {
public:
    struct Order {
        double core_s = 0;
        VirtualCluster::Action begun;  ///< called when it begins; may be empty
        VirtualCluster::Action done;   ///< called when it is done, in the order of the calls
        /// It does not begin, and what is behind it neither, before this is 0; null: nothing is
        /// missing. Whoever makes it 0 calls advance().
        std::shared_ptr<const int> missing;
    };

    /// @param threads  cores that it can use at once
    ServerLine(VirtualCluster& cluster, int node, double threads)
        : cluster_(cluster), threads_(threads), use_{.node = node} {}
    ServerLine(const ServerLine&) = delete;
    ServerLine& operator=(const ServerLine&) = delete;

    void add(Order order);
    /// Begins what may begin.
    void advance();
    /// Gives up all that waits.
    void clear();
    [[nodiscard]] bool idle() const noexcept { return work_ == 0; }
    /// Without bytes.
    [[nodiscard]] const ServerUse& use() const noexcept { return use_; }

private:
    void done();

    VirtualCluster& cluster_;
    double threads_;
    ServerUse use_;
    std::deque<Order> orders_;  ///< the first one is in work, unless something is missing
    VirtualCluster::WorkId work_ = 0;
    double begun_s_ = 0;
};

/// The servers of a virtual job, and those who sum for the nodes that stage pushes.
class ServersJob::Servers {
public:
    explicit Servers(ServersJob& job);

    /// Servers make an update, for workers that it releases.
    void update(const Fire& fire, std::vector<Release> releases);
    /// Workers get parameters as they are. Those of which somebody still gets a copy cost nothing.
    void copy(std::vector<Release> releases);
    /// Pushes of the node stay there, where they are summed.
    [[nodiscard]] bool sums(int node) const { return heads_.contains(node); }
    /// A lease's push waits on its node; or is not used.
    void stage(std::uint64_t lease) { staged_.insert(lease); }
    void unstage(std::uint64_t lease) { staged_.erase(lease); }
    /// This share of all parameters went between a node and the servers.
    void pushed(int node, double share) { carry(pushed_, node, share); }
    void pulled(int node, double share) { carry(pulled_, node, share); }
    [[nodiscard]] bool idle() const;
    /// Gives up all that is ordered.
    void clear();
    void report(std::vector<ServerUse>& uses) const;

private:
    /// Bytes that went over network cards between servers and others.
    struct Carried {
        double all = 0;                 ///< to or from all servers, if all were elsewhere
        std::map<int, double> by_node;  ///< of these, on nodes with servers
    };
    [[nodiscard]] std::vector<double> lags_of(const std::vector<Release>& releases) const;
    UpdatePtr order(double passes, double fixed_s, std::vector<Release> releases,
                    const std::shared_ptr<const int>& missing);
    void send_sum(int node, int pushes, const std::shared_ptr<int>& missing);
    void carry(Carried& carried, int node, double share) const;

    ServersJob& job_;
    std::map<int, int> heads_;  ///< by node that stages: the worker that sums
    std::deque<ServerLine> servers_;
    std::map<int, ServerLine> summing_;  ///< by node
    std::set<std::uint64_t> staged_;     ///< leases whose pushes wait on their nodes
    std::weak_ptr<Update> current_;      ///< made a copy of the newest parameters as they are
    Carried pushed_;
    Carried pulled_;
};

}  // namespace cohort
