#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "layers/optim/update_cost.hpp"
#include "sched/servers/shard_balancer.hpp"
#include "sim/job/servers_job.hpp"
#include "sim/job/servers_job_servers.hpp"

namespace cohort {

/// Decides which server owns how much of the parameters of a virtual job, and moves what changes
/// its owner, with the optimizer's state, over the network.
class ServersJob::Shards {
public:
    explicit Shards(ServersJob& job)
        : job_(job),
          balancer_(job.spec.server_nodes, job.spec.worker_nodes,
                    equal_shares(job.spec.server_nodes.size())),
          last_(job.spec.server_nodes.size()),
          busy_s_(last_.size(), 0) {}

    /// The job begins: what nodes can do now is known.
    void begin() {
        if (job_.spec.shards != ShardSizes::kCapacity || last_.size() < 2) {
            return;
        }
        const std::vector<double> shares = capacity_shares(speeds_now(), job_.spec.worker_nodes);
        job_.transfers_.resize(shares);
        balancer_ = ShardBalancer(job_.spec.server_nodes, job_.spec.worker_nodes, shares);
    }

    /// An update was made. @return shards are to move
    [[nodiscard]] bool updated() {
        if (job_.spec.rebalance_servers == RebalanceServers::kOff || last_.size() < 2 || wanted_) {
            return false;
        }
        note_busy();
        if (balancer_.went(job_.now(), job_.engine().reference_batches(), busy_s_)) {
            wanted_ = balancer_.decide();
            asked_s_ = job_.now();
        }
        return wanted_.has_value();
    }

    /// Another plan is in force: times of before say nothing about it.
    void restart() { balancer_.restart(); }

    /// Moves what updated() asked for. @param then  called when all is where it belongs
    void move(VirtualCluster::Action then) {
        record_ = {.asked_s = asked_s_, .begun_s = job_.now(), .why = wanted_->why};
        job_.servers_->when_done([this, then = std::move(then)] { send(then); });
    }

    /// Gives up a move.
    void clear() {
        for (ServerTransfers::Id& transfer : transfers_) {
            job_.transfers_.cancel(transfer);
        }
        transfers_.clear();
    }

private:
    /// A server's time with bytes over its network card, as it is now. Servers of a node share it.
    [[nodiscard]] double card_s(std::size_t server, const ServerTransfers::CardBytes& bytes) const {
        const Shares node = job_.cluster.node(job_.spec.server_nodes[server]).shares;
        const double sharing = static_cast<double>(
            std::ranges::count(job_.spec.server_nodes, job_.spec.server_nodes[server]));
        return sharing * (bytes.rx / node.rx + bytes.tx / node.tx) /
               job_.cluster.profile().nic_bytes_per_s;
    }

    /// What each server did since the last call counts at the speed that its node has now.
    void note_busy() {
        for (std::size_t server = 0; server < last_.size(); ++server) {
            const ServerUse now = job_.servers_->use(server);
            busy_s_[server] += card_s(server, {.rx = now.rx_bytes - last_[server].rx_bytes,
                                               .tx = now.tx_bytes - last_[server].tx_bytes}) +
                               now.busy_s - last_[server].busy_s;
            last_[server] = now;
        }
    }

    /// Of servers with all parameters, whose nodes do as they do now.
    [[nodiscard]] std::vector<ServerSpeed> speeds_now() const {
        const ClusterProfile& profile = job_.cluster.profile();
        const double pushes_bytes = job_.workers() * job_.spec.wire_parameter_bytes();
        const double passes = job_.workers() + update_passes(job_.spec.optimizer) + 1;
        std::vector<ServerSpeed> speeds;
        for (std::size_t server = 0; server < last_.size(); ++server) {
            const int node = job_.spec.server_nodes[server];
            const double update_s = passes * job_.spec.workload.parameter_bytes /
                                    (profile.memory_bytes_per_s * profile.server_threads *
                                     job_.cluster.node(node).shares.cpu);
            speeds.push_back(
                {.node = node,
                 .whole_s = card_s(server, {.rx = pushes_bytes, .tx = pushes_bytes}) + update_s});
        }
        return speeds;
    }

    [[nodiscard]] std::vector<double> cuts(const std::vector<double>& shares) const {
        std::vector<double> cuts{0};
        for (const double share : shares) {
            cuts.push_back(cuts.back() + share * job_.spec.workload.parameter_bytes);
        }
        return cuts;
    }

    void send(const VirtualCluster::Action& then) {
        const double copies = 1 + state_sizes(job_.spec.optimizer);
        const std::vector<ShardMove> moves =
            moves_between(cuts(balancer_.shares()), cuts(wanted_->shares));
        transfers_.assign(moves.size(), 0);
        left_ = moves.size();
        if (moves.empty()) {
            end();
            then();
        }
        for (std::size_t i = 0; i < moves.size(); ++i) {
            const double bytes = copies * (moves[i].end - moves[i].begin);
            record_.bytes += bytes;
            transfers_[i] =
                job_.transfers_.move(moves[i].from, moves[i].to, bytes, [this, i, then] {
                    transfers_[i] = 0;
                    if (--left_ == 0) {
                        end();
                        then();
                    }
                });
        }
    }

    void end() {
        const ShardBalancer::Resize resize = *std::exchange(wanted_, std::nullopt);
        record_.ended_s = job_.now();
        note_busy();
        job_.transfers_.resize(resize.shares);
        balancer_.moved(resize, record_.ended_s - record_.begun_s);
        job_.log.add(EventLog::Kind::kResize, record_.ended_s, record_.bytes);
        job_.result.resizes.push_back(record_);
    }

    ServersJob& job_;
    ShardBalancer balancer_;
    std::vector<ServerUse> last_;  ///< by server
    std::vector<double> busy_s_;   ///< by server, see ShardBalancer::went
    std::optional<ShardBalancer::Resize> wanted_;
    double asked_s_ = 0;
    ShardResize record_;  ///< of the move under way
    std::vector<ServerTransfers::Id> transfers_;
    std::size_t left_ = 0;  ///< transfers
};

}  // namespace cohort
