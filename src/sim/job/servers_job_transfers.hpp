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
    explicit ServerTransfers(VirtualJobContext& job)
        : job_(job), parts_(job.spec.server_nodes), before_(parts_.nodes.size()) {
        for (const int node : parts_.nodes) {
            pushed_.by_node[node] = pulled_.by_node[node] = 0;
        }
    }
    ServerTransfers(const ServerTransfers&) = delete;
    ServerTransfers& operator=(const ServerTransfers&) = delete;
    ~ServerTransfers() = default;

    /// A worker gets parameters, or a share of them.
    Id pull(int worker, Action done, double share = 1) {
        ++under_way_;
        return job_.cluster.gather(parts_, job_.node_of(worker), share * bytes(),
                                   arrival(pulled_, worker, share, std::move(done)));
    }

    /// A worker sends its gradient or delta, or the sum of its node's, or a share of it.
    Id push(int worker, Action done, double share = 1) {
        ++under_way_;
        return job_.cluster.scatter(job_.node_of(worker), parts_, share * bytes(),
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

    /// A part of what a server owns goes to another.
    Id move(int from, int to, double moved_bytes, Action done) {
        ++under_way_;
        const std::vector<int>& nodes = parts_.nodes;
        return job_.cluster.send(nodes[job_.at(from)], nodes[job_.at(to)], moved_bytes,
                                 [this, done = std::move(done)] {
                                     --under_way_;
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

    /// The server's part of the parameters.
    [[nodiscard]] double share(std::size_t server) const {
        return parts_.shares.empty() ? 1 / static_cast<double>(parts_.nodes.size())
                                     : parts_.shares[server];
    }
    /// In its memory.
    [[nodiscard]] double shard_bytes(std::size_t server) const {
        return job_.spec.workload.parameter_bytes * share(server);
    }
    /// Transfers that begin from now on have these parts. @param shares  by server
    void resize(std::vector<double> shares) {
        for (std::size_t server = 0; server < before_.size(); ++server) {
            before_[server] = carried(server);
        }
        for (Carried* some : {&pushed_, &pulled_}) {
            some->all = 0;
            for (auto& [node, bytes] : some->by_node) {
                bytes = 0;
            }
        }
        parts_.shares = std::move(shares);
        job_.shares = parts_.shares;
    }

    /// Bytes over the network card of a server's node.
    struct CardBytes {
        double rx = 0;  ///< pushes to it
        double tx = 0;  ///< parameters from it
    };
    [[nodiscard]] CardBytes carried(std::size_t server) const {
        const int node = parts_.nodes[server];
        return {.rx = before_[server].rx + pushed_.over_card(node) * share(server),
                .tx = before_[server].tx + pulled_.over_card(node) * share(server)};
    }

private:
    /// Bytes between workers and servers, in one direction.
    struct Carried {
        [[nodiscard]] double over_card(int node) const { return all - by_node.at(node); }

        double all = 0;                 ///< to or from workers anywhere
        std::map<int, double> by_node;  ///< of these, workers on nodes with servers
    };

    [[nodiscard]] double bytes() const noexcept { return job_.spec.wire_parameter_bytes(); }

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
    VirtualCluster::Parts parts_;  ///< of the servers
    std::int64_t under_way_ = 0;
    Carried pushed_;                 ///< since the shares are these
    Carried pulled_;                 ///< the same
    std::vector<CardBytes> before_;  ///< by server
};

}  // namespace cohort
