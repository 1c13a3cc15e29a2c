#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "optim/update_cost.hpp"
#include "sched/plan/lease_work.hpp"
#include "sim/job/servers_job.hpp"
#include "sim/job/servers_job_work.hpp"

namespace cohort {

/// Memory traffic of a copy that is not made along with an update: read and written.
inline constexpr double kCopyPasses = 2;

/// The first worker of each node that stages.
inline std::map<int, int> heads_of(const JobSpec& spec) {
    int nodes = 0;
    for (const std::vector<int>* some : {&spec.worker_nodes, &spec.server_nodes}) {
        nodes = std::max(nodes, 1 + *std::max_element(some->begin(), some->end()));
    }
    std::vector<NodeRanks> ranks(static_cast<std::size_t>(nodes));
    for (const int node : spec.worker_nodes) {
        ++ranks[static_cast<std::size_t>(node)].workers;
    }
    for (const int node : spec.server_nodes) {
        ++ranks[static_cast<std::size_t>(node)].servers;
    }
    const std::vector<bool> staging = staging_nodes(ranks, spec.node_staging, false);
    std::map<int, int> heads;
    for (int worker = 0; worker < spec.workers(); ++worker) {
        const int node = spec.worker_nodes[static_cast<std::size_t>(worker)];
        if (staging[static_cast<std::size_t>(node)]) {
            heads.try_emplace(node, worker);
        }
    }
    return heads;
}

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

    void add(Order order) {
        orders_.push_back(std::move(order));
        advance();
    }

    /// Begins what may begin.
    void advance() {
        const bool waits = work_ != 0 || orders_.empty() ||
                           (orders_.front().missing && *orders_.front().missing > 0);
        if (waits) {
            return;
        }
        begun_s_ = cluster_.queue().now();
        work_ = cluster_.serve(use_.node, orders_.front().core_s, threads_, [this] { done(); });
        if (orders_.front().begun) {
            orders_.front().begun();
        }
    }

    /// Gives up all that waits.
    void clear() {
        if (work_ != 0) {
            const double left = cluster_.cancel(work_);
            use_.cpu_core_s += (1 - left) * orders_.front().core_s;
            use_.busy_s += cluster_.queue().now() - begun_s_;
        }
        work_ = 0;
        orders_.clear();
    }

    [[nodiscard]] bool idle() const noexcept { return work_ == 0; }
    /// Without bytes.
    [[nodiscard]] const ServerUse& use() const noexcept { return use_; }

private:
    void done() {
        const Order order = std::move(orders_.front());
        orders_.pop_front();
        work_ = 0;
        use_.cpu_core_s += order.core_s;
        use_.busy_s += cluster_.queue().now() - begun_s_;
        order.done();
        advance();
    }

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
    explicit Servers(ServersJob& job) : job_(job), heads_(heads_of(job.spec)) {
        for (const int node : job_.spec.server_nodes) {
            servers_.emplace_back(job_.cluster, node, job_.cluster.profile().server_threads);
        }
        for (const auto& [node, head] : heads_) {
            summing_.try_emplace(node, job_.cluster, node, 1.0);
        }
    }

    /// Servers make an update, for workers that it releases.
    void update(const Fire& fire, std::vector<Release> releases) {
        std::map<int, int> on_nodes;  // pushes
        int sums = static_cast<int>(fire.pushes.size());
        for (const FiredPush& push : fire.pushes) {
            if (staged_.erase(push.ticket.lease) > 0) {
                sums += on_nodes[job_.node_of(push.ticket.id.worker)]++ == 0 ? 0 : -1;
            }
        }
        const std::vector<double> lags = lags_of(releases);
        const double passes =
            sums + update_passes(job_.spec.optimizer) + static_cast<double>(lags.size());
        const auto missing = std::make_shared<int>(static_cast<int>(on_nodes.size()));
        const UpdatePtr made =
            order(passes, job_.cluster.profile().update_s, std::move(releases), missing);
        current_ = !lags.empty() && lags.front() == 0 ? made : nullptr;
        for (const auto& [node, pushes] : on_nodes) {
            send_sum(node, pushes, missing);
        }
    }

    /// Workers get parameters as they are. Those of which somebody still gets a copy cost nothing.
    void copy(std::vector<Release> releases) {
        std::vector<double> lags = lags_of(releases);
        const bool plain = lags.front() == 0;
        const bool held = plain && !current_.expired();
        const auto copies = static_cast<double>(lags.size()) - (held ? 1 : 0);
        const UpdatePtr made = order(copies * kCopyPasses, 0, std::move(releases), nullptr);
        if (plain && !held) {
            current_ = made;
        }
    }

    /// Pushes of the node stay there, where they are summed.
    [[nodiscard]] bool sums(int node) const { return heads_.contains(node); }
    /// A lease's push waits on its node; or is not used.
    void stage(std::uint64_t lease) { staged_.insert(lease); }
    void unstage(std::uint64_t lease) { staged_.erase(lease); }
    [[nodiscard]] bool idle() const {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const ServerLine& server) { return server.idle(); }) &&
               std::all_of(summing_.begin(), summing_.end(),
                           [](const auto& head) { return head.second.idle(); });
    }

    /// Gives up all that is ordered.
    void clear() {
        for (ServerLine& server : servers_) {
            server.clear();
        }
        for (auto& [node, head] : summing_) {
            head.clear();
        }
    }

    [[nodiscard]] ServerUse use(std::size_t server) const {
        ServerUse use = servers_[server].use();
        const ServerTransfers::CardBytes bytes = job_.transfers_.carried(server);
        use.rx_bytes = bytes.rx;
        use.tx_bytes = bytes.tx;
        use.share = job_.transfers_.share(server);
        return use;
    }
    /// Called once all servers have done what they were told so far.
    void when_done(VirtualCluster::Action then) {
        const auto part = [left = std::make_shared<std::size_t>(servers_.size()),
                           then = std::move(then)] {
            if (--*left == 0) {
                then();
            }
        };
        for (ServerLine& server : servers_) {
            server.add({.core_s = 0, .begun = nullptr, .done = part, .missing = nullptr});
        }
    }

private:
    /// Different parameters that a server makes: only a velocity looks ahead.
    [[nodiscard]] std::vector<double> lags_of(const std::vector<Release>& releases) const {
        std::vector<double> lags;
        for (const Release& release : releases) {
            lags.push_back(job_.spec.optimizer == OptimizerKind::kSgd ? std::max(release.lag, 0.0)
                                                                      : 0);
        }
        std::sort(lags.begin(), lags.end());
        lags.erase(std::unique(lags.begin(), lags.end()), lags.end());
        return lags;
    }

    /// Every server works on its shard; who is released pulls meanwhile, once all have begun, and
    /// goes on when all are done.
    /// @param passes  over the shard  @param fixed_s  core seconds besides
    /// @param missing  see ServerLine
    ServersJob::UpdatePtr order(double passes, double fixed_s, std::vector<Release> releases,
                                const std::shared_ptr<const int>& missing) {
        auto update = std::make_shared<Update>(Update{.waiting = servers_.size(),
                                                      .working = servers_.size(),
                                                      .workers = std::move(releases),
                                                      .there = {}});
        const auto begun = [this, update] {
            if (--update->waiting > 0) {
                return;
            }
            for (const Release& release : std::exchange(update->workers, {})) {
                Worker& worker = job_.worker(release.worker);
                if (worker.released.turn == release.turn) {
                    worker.pull(update);
                }
            }
        };
        const auto done = [this, update] {
            if (--update->working > 0) {
                return;
            }
            for (const Release& release : std::exchange(update->there, {})) {
                job_.worker(release.worker).pulled(release.turn);
            }
        };
        for (std::size_t server = 0; server < servers_.size(); ++server) {
            const double core_s = passes * job_.transfers_.shard_bytes(server) /
                                      job_.cluster.profile().memory_bytes_per_s +
                                  fixed_s;
            servers_[server].add(
                {.core_s = core_s, .begun = begun, .done = done, .missing = missing});
        }
        return update;
    }

    /// The sum leaves for the servers while it is made: pushes are read, it is written.
    /// @param missing  one less once it is there
    void send_sum(int node, int pushes, const std::shared_ptr<int>& missing) {
        const double bytes = job_.spec.workload.parameter_bytes;
        const double core_s = (pushes + 1) * bytes / job_.cluster.profile().memory_bytes_per_s;
        const int head = heads_.at(node);
        const auto part = [this, missing, left = std::make_shared<int>(2)] {
            if (--*left == 0 && --*missing == 0) {
                for (ServerLine& server : servers_) {
                    server.advance();
                }
            }
        };
        summing_.at(node).add({.core_s = core_s,
                               .begun = [this, head, part] { job_.worker(head).send_push(part); },
                               .done =
                                   [this, head, core_s, part] {
                                       job_.lanes.used(head, core_s, 0);
                                       part();
                                   },
                               .missing = nullptr});
    }

    ServersJob& job_;
    std::map<int, int> heads_;  ///< by node that stages: the worker that sums
    std::deque<ServerLine> servers_;
    std::map<int, ServerLine> summing_;  ///< by node
    std::set<std::uint64_t> staged_;     ///< leases whose pushes wait on their nodes
    std::weak_ptr<Update> current_;      ///< made a copy of the newest parameters as they are
};

}  // namespace cohort
