#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "layers/optim/update_cost.hpp"
#include "sim/job/servers_job.hpp"
#include "sim/job/servers_job_line.hpp"
#include "sim/job/servers_job_tree.hpp"
#include "sim/job/servers_job_work.hpp"

namespace cohort {

/// Memory traffic of a copy that is not made along with an update: read and written.
inline constexpr double kCopyPasses = 2;

/// The servers of a virtual job, and what travels between them and the nodes.
class ServersJob::Servers {
public:
    explicit Servers(ServersJob& job) : job_(job), tree_(job) {
        for (const int node : job_.spec.server_nodes) {
            servers_.emplace_back(job_.cluster, node, job_.cluster.profile().server_threads,
                                  drawn(static_cast<int>(servers_.size())));
        }
    }

    /// Servers make an update, for workers that it releases.
    void update(const Fire& fire, std::vector<Release> releases) {
        std::map<int, int> on_nodes;  // pushes
        int sums = static_cast<int>(fire.pushes.size());
        for (const FiredPush& push : fire.pushes) {
            if (staged_.erase(push.ticket.lease) > 0) {
                ++on_nodes[job_.node_of(push.ticket.id.worker)];
                --sums;
            }
        }
        tree_.refresh();
        const std::vector<double> lags = lags_of(releases);
        const auto missing = std::make_shared<int>(tree_.sums_of(on_nodes));
        const double passes =
            sums + *missing + update_passes(job_.spec.optimizer) + static_cast<double>(lags.size());
        const UpdatePtr made =
            order(passes, job_.cluster.profile().update_s, std::move(releases), missing);
        current_ = !lags.empty() && lags.front() == 0 ? made : nullptr;
        tree_.send_sums(on_nodes, [this, missing] {
            if (--*missing == 0) {
                for (ServerLine& server : servers_) {
                    server.advance();
                }
            }
        });
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
    [[nodiscard]] bool sums(int node) const { return tree_.stages(node); }
    /// A lease's push waits on its node; or is not used.
    void stage(std::uint64_t lease) { staged_.insert(lease); }
    void unstage(std::uint64_t lease) { staged_.erase(lease); }
    [[nodiscard]] bool idle() const {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const ServerLine& server) { return server.idle(); }) &&
               tree_.idle();
    }

    /// Gives up all that is ordered.
    void clear() {
        for (ServerLine& server : servers_) {
            server.clear();
        }
        tree_.clear();
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
    [[nodiscard]] ServerLine::Served drawn(int server) const {
        RunTimeline* const timeline = job_.spec.timeline;
        if (timeline == nullptr) {
            return {};
        }
        return [timeline, server](double begin_s, double end_s) {
            timeline->served(server, begin_s, end_s);
        };
    }
    /// Different parameters that a server makes, by how far they look ahead.
    [[nodiscard]] std::vector<double> lags_of(const std::vector<Release>& releases) const {
        std::vector<double> lags;
        for (const Release& release : releases) {
            lags.push_back(std::max(release.lag, 0.0));
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
            send_parameters(update);
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

    /// Workers that were not released again pull: each by itself, or together over the tree when
    /// they get the same.
    void send_parameters(const UpdatePtr& update) {
        std::vector<Release> releases = std::exchange(update->workers, {});
        std::erase_if(releases, [this](const Release& one) {
            return job_.worker(one.worker).released.turn != one.turn;
        });
        if (!tree_.brings(releases.size()) || lags_of(releases).size() > 1) {
            for (const Release& release : releases) {
                job_.worker(release.worker).pull(update);
            }
            return;
        }
        std::map<int, std::vector<int>> by_node;
        std::map<int, std::uint64_t> turns;
        for (const Release& release : releases) {
            by_node[job_.node_of(release.worker)].push_back(release.worker);
            turns[release.worker] = release.turn;
            job_.worker(release.worker).begin_pull();
        }
        tree_.bring(by_node, [this, update, turns = std::move(turns)](int worker) {
            if (job_.worker(worker).released.turn == turns.at(worker)) {
                job_.worker(worker).pull_arrived(update);
            }
        });
    }

    ServersJob& job_;
    Tree tree_;
    std::deque<ServerLine> servers_;
    std::set<std::uint64_t> staged_;  ///< leases whose pushes wait on their nodes
    std::weak_ptr<Update> current_;   ///< made a copy of the newest parameters as they are
};

}  // namespace cohort
