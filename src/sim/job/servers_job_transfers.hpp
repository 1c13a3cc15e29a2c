#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/job/virtual_job_context.hpp"

namespace cohort {

/// The transfers in flight in a virtual job with servers: parameters from all servers to a worker,
/// pushes the other way, and the averages of groups.
class ServerTransfers {
public:
    using Action = VirtualCluster::Action;
    using Id = VirtualCluster::WorkId;  ///< 0: none

    /// @param job  outlives it
    explicit ServerTransfers(VirtualJobContext& job) : job_(job) {
        for (const int node : job.spec.server_nodes) {
            pushed_.by_node[node] = pulled_.by_node[node] = 0;
        }
    }
    ServerTransfers(const ServerTransfers&) = delete;
    ServerTransfers& operator=(const ServerTransfers&) = delete;
    ~ServerTransfers() = default;

    /// A worker gets parameters, or a share of them.
    Id pull(int worker, Action done, double share = 1) {
        ++under_way_;
        return job_.cluster.gather(job_.spec.server_nodes, job_.node_of(worker), share * bytes(),
                                   arrival(pulled_, worker, share, std::move(done)));
    }

    /// A worker sends its gradient or delta, or the sum of its node's, or a share of it.
    Id push(int worker, Action done, double share = 1) {
        ++under_way_;
        return job_.cluster.scatter(job_.node_of(worker), job_.spec.server_nodes, share * bytes(),
                                    arrival(pushed_, worker, share, std::move(done)));
    }

    /// A worker sends a share of a sum, or of parameters, to one of another node.
    void relay(int from, int to, double share, Action done) {
        ++under_way_;
        job_.cluster.send(job_.node_of(from), job_.node_of(to), share * bytes(),
                          [this, from, to, share, done = std::move(done)] {
                              --under_way_;
                              job_.lanes.used(from, 0, share * bytes());
                              job_.lanes.used(to, 0, share * bytes());
                              done();
                          });
    }

    /// Workers average their gradients.
    Id average(const std::vector<int>& workers, Action done) {
        std::vector<int> nodes;
        for (const int worker : workers) {
            nodes.push_back(job_.node_of(worker));
        }
        ++under_way_;
        return job_.cluster.all_reduce(nodes, bytes(), [this, workers, done = std::move(done)] {
            --under_way_;
            const auto count = static_cast<double>(workers.size());
            for (const int worker : workers) {
                job_.lanes.used(worker, 0, 4 * (count - 1) / count * bytes());
            }
            done();
        });
    }

    /// Cancels the transfer in flight, if there is one. @return the share of it that was done
    double cancel(Id& work) {
        if (work == 0) {
            return 0;
        }
        --under_way_;
        return 1 - job_.cluster.cancel(std::exchange(work, 0));
    }
    /// The same of a worker's pull or push: servers have sent, or got, a share of it.
    double cancel_pull(int worker, Id& pull) { return carry(pulled_, worker, cancel(pull)); }
    double cancel_push(int worker, Id& push) { return carry(pushed_, worker, cancel(push)); }

    [[nodiscard]] bool idle() const noexcept { return under_way_ == 0; }
    /// Bytes over a node's network card to its servers, and from them, if all servers were there.
    [[nodiscard]] double received(int node) const { return pushed_.over_card(node); }
    [[nodiscard]] double sent(int node) const { return pulled_.over_card(node); }

private:
    /// Bytes between workers and servers, in one direction.
    struct Carried {
        [[nodiscard]] double over_card(int node) const { return all - by_node.at(node); }

        double all = 0;                 ///< to or from workers anywhere
        std::map<int, double> by_node;  ///< of these, workers on nodes with servers
    };

    [[nodiscard]] double bytes() const noexcept { return job_.spec.workload.parameter_bytes; }

    Action arrival(Carried& carried, int worker, double share, Action done) {
        return [this, &carried, worker, share, done = std::move(done)] {
            --under_way_;
            carry(carried, worker, share);
            job_.lanes.used(worker, 0, share * bytes());
            done();
        };
    }

    /// @param share  of all parameters  @return it
    double carry(Carried& carried, int worker, double share) const {
        carried.all += share * bytes();
        const auto found = carried.by_node.find(job_.node_of(worker));
        if (found != carried.by_node.end()) {
            found->second += share * bytes();
        }
        return share;
    }

    VirtualJobContext& job_;
    std::int64_t under_way_ = 0;
    Carried pushed_;
    Carried pulled_;
};

}  // namespace cohort
