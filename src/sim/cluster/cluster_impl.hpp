#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/slot_table.hpp"

namespace cohort {

/// Work goes through stages, each ended by an event of the queue or by an activity that ends:
/// an iteration through delay, input, forward and backward; a transfer through latency and flow; a
/// server's work has one.
struct VirtualCluster::Impl {
    enum class Stage : std::uint8_t {
        kDelay,
        kInput,
        kForward,
        kBackward,
        kLatency,
        kFlow,
        kServe
    };
    /// The network cards of several nodes, in proportion to how often each node is named.
    struct Ends {
        FluidNetwork::ResourceId rx = 0;
        FluidNetwork::ResourceId tx = 0;
    };
    struct KnownEnds : Ends {
        int transfers = 0;  ///< in flight
        bool recent = false;
    };
    struct Work {
        Stage stage = Stage::kDelay;
        int owner = 0;   ///< place of an iteration, node of a server's work
        int client = 0;  ///< EventQueue::client() that asked for it
        IterationCost cost;
        double delay_s = 0;
        double amount = 0;    ///< bytes or core seconds
        double max_rate = 0;  ///< of a flow; of a server's work, before its node's share
        double left = 0;      ///< of the device's work in this stage, at `since`
        double since = 0;
        std::vector<FluidNetwork::Use> uses;  ///< of a flow
        KnownEnds* ends = nullptr;            ///< that it uses
        EventQueue::Id event = 0;
        FluidNetwork::ActivityId activity = 0;
        Action backward;
        Action done;
    };
    struct Node {
        FluidNetwork::ResourceId rx = 0;
        FluidNetwork::ResourceId tx = 0;
        FluidNetwork::ResourceId cores = 0;
        Shares own;
        std::vector<PlaceId> places;
        std::vector<WorkId> serving;
    };
    struct Place {
        int node = 0;
        Shares own;
        Shares total;        ///< with its node's
        double delay_s = 0;  ///< of this iteration alone
        std::vector<WorkId> computing;
    };

    class Transfers;
    class ScenarioPlayer;

    Impl(EventQueue& events, const ClusterProfile& kind, int node_count,
         std::unique_ptr<Scenario> what_happens, const ClientWeights* of_clients);
    ~Impl();

    [[nodiscard]] WorkId take_compute(int index, const IterationCost& cost, Action backward,
                                      Action done);
    void begin_input(WorkId id);
    void begin_forward(WorkId id);
    void begin_backward(WorkId id);
    /// `left` units of the device's work begin or go on.
    void run_device(WorkId id);
    void finish(WorkId id);
    void forget(WorkId id);
    [[nodiscard]] double share_left(const Work& work) const;

    [[nodiscard]] Node& node(int index) { return nodes[static_cast<std::size_t>(index)]; }
    [[nodiscard]] Place& place(int index) { return places[static_cast<std::size_t>(index)]; }
    [[nodiscard]] Work& work(WorkId id) { return works[works.index_of(id)]; }
    WorkId take(Stage stage, int owner, Action done);
    [[nodiscard]] double weight_of(const Work& work) const {
        return weights != nullptr ? weights->of(work.client) : 1;
    }

    EventQueue& queue;
    ClusterProfile profile;
    FluidNetwork fluid;
    std::vector<Node> nodes;
    std::vector<Place> places;
    std::vector<PlaceId> free_places;  ///< ids that are used again
    SlotTable<Work> works;
    const ClientWeights* weights;
    std::unique_ptr<Transfers> transfers;
    std::unique_ptr<ScenarioPlayer> player;
};

/// Transfers: a latency, then an activity that takes its part of every network card on its way.
/// What stays on a node takes none, but holds the whole to the local rate.
class VirtualCluster::Impl::Transfers {
public:
    explicit Transfers(Impl& cluster) : cluster_(cluster), use_of_(cluster.nodes.size() * 3) {}

    /// Between one node and several that are named, with repetitions.
    WorkId begin(int outer, const Parts& inner, bool outer_sends, double bytes, Action done) {
        if (inner.nodes.empty() || !(bytes >= 0)) {
            throw std::logic_error(
                "[VirtualCluster] a transfer needs a node at each end, bytes >= 0");
        }
        const WorkId id = cluster_.take(Stage::kLatency, outer, std::move(done));
        Work& each = cluster_.work(id);
        each.amount = bytes;
        each.uses.clear();
        const double local = share_of(outer, inner);
        if (local < 1) {
            const Ends far = ends_of(inner, each);
            const Node& near = cluster_.node(outer);
            each.uses.push_back({outer_sends ? far.rx : far.tx, 1});
            each.uses.push_back({outer_sends ? near.tx : near.rx, 1 - local});
            if (local > 0) {
                each.uses.push_back({outer_sends ? near.rx : near.tx, -local});
            }
        }
        return begin_latency(id, cluster_.profile.latency_s, local);
    }

    WorkId begin_all_reduce(const std::vector<int>& members, double bytes, Action done) {
        if (members.empty() || !(bytes >= 0)) {
            throw std::logic_error("[VirtualCluster::all_reduce] no members, or bytes < 0");
        }
        const WorkId id = cluster_.take(Stage::kLatency, members.front(), std::move(done));
        Work& each = cluster_.work(id);
        const auto count = static_cast<double>(members.size());
        const double steps = 2 * (count - 1);
        each.amount = steps / count * bytes;
        each.uses.clear();
        bool local = false;
        for (std::size_t i = 0; i < members.size(); ++i) {
            const int from = members[i];
            const int to = members[i + 1 < members.size() ? i + 1 : 0];
            if (from == to) {
                local = true;
                continue;
            }
            add_use(each, cluster_.node(from).tx);
            add_use(each, cluster_.node(to).rx);
        }
        for (const FluidNetwork::Use& use : each.uses) {
            use_of_[static_cast<std::size_t>(use.resource)] = 0;
        }
        return begin_latency(id, steps * cluster_.profile.latency_s, local ? 1 : 0);
    }

    /// See VirtualCluster::forget_unused.
    std::size_t forget_unused() {
        for (auto it = ends_.begin(); it != ends_.end();) {
            KnownEnds& known = it->second;
            const bool used = std::exchange(known.recent, false) || known.transfers > 0;
            if (!used) {
                cluster_.fluid.forget_group(known.rx);
                cluster_.fluid.forget_group(known.tx);
            }
            it = used ? std::next(it) : ends_.erase(it);
        }
        return ends_.size();
    }

private:
    /// The part of a transfer that a node has.
    [[nodiscard]] static double share_of(int node, const Parts& parts) {
        if (parts.shares.empty()) {
            const auto count = std::count(parts.nodes.begin(), parts.nodes.end(), node);
            return 1 / static_cast<double>(parts.nodes.size()) * static_cast<double>(count);
        }
        double share = 0;
        for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
            share += parts.nodes[i] == node ? parts.shares[i] : 0;
        }
        return share;
    }

    /// All named nodes, whatever the other end is.
    [[nodiscard]] Ends ends_of(const Parts& parts, Work& transfer) {
        const std::vector<int>& named = parts.nodes;
        if (std::equal(named.begin() + 1, named.end(), named.begin())) {
            return {cluster_.node(named.front()).rx, cluster_.node(named.front()).tx};
        }
        KnownEnds& known = ends_[parts];
        transfer.ends = &known;
        ++known.transfers;
        if (std::exchange(known.recent, true) || known.rx != 0) {
            return known;
        }
        std::vector<FluidNetwork::Use> rx;
        std::vector<FluidNetwork::Use> tx;
        for (const int index : std::set<int>(named.begin(), named.end())) {
            const double share = share_of(index, parts);
            rx.push_back({cluster_.node(index).rx, share});
            tx.push_back({cluster_.node(index).tx, share});
        }
        known.rx = cluster_.fluid.add_group(rx);
        known.tx = cluster_.fluid.add_group(tx);
        return known;
    }

    WorkId begin_latency(WorkId id, double latency, double local_share) {
        Work& each = cluster_.work(id);
        each.stage = Stage::kLatency;
        each.max_rate = local_share > 0 ? cluster_.profile.local_bytes_per_s / local_share
                                        : FluidNetwork::kUnlimited;
        if (latency > 0 && !each.uses.empty()) {
            each.event = cluster_.queue.after(latency, [this, id] { begin_flow(id); });
        } else {
            begin_flow(id);
        }
        return id;
    }

    void begin_flow(WorkId id) {
        Work& each = cluster_.work(id);
        each.stage = Stage::kFlow;
        each.activity = cluster_.fluid.begin(
            each.amount, each.uses, each.max_rate, [this, id] { cluster_.finish(id); },
            cluster_.weight_of(each));
    }

    void add_use(Work& each, FluidNetwork::ResourceId resource) {
        std::uint32_t& known = use_of_[static_cast<std::size_t>(resource)];
        if (known == 0) {
            each.uses.push_back({resource, 0});
            known = static_cast<std::uint32_t>(each.uses.size());
        }
        each.uses[known - 1].share += 1;
    }

    Impl& cluster_;
    std::map<Parts, KnownEnds> ends_;    ///< of scatters and gathers
    std::vector<std::uint32_t> use_of_;  ///< by resource: 1 + index in the uses being made, or 0
};

/// What happens to the cluster: rows of a trace, arrivals of other jobs.
class VirtualCluster::Impl::ScenarioPlayer {
public:
    ScenarioPlayer(Impl& cluster, std::unique_ptr<Scenario> scenario)
        : cluster_(cluster), scenario_(std::move(scenario)) {}

    void on_arrival(std::function<void(const JobArrival&)> arrival) {
        arrival_ = std::move(arrival);
    }
    void start() {
        if (scenario_ == nullptr) {
            return;
        }
        row_ = scenario_->next_row();
        next_rows();
        if (arrival_) {
            next_arrival();
        }
    }

    /// Draws the delay of a place's next iteration.
    void begin_iteration(PlaceId id, std::int64_t moment) {
        if (scenario_ != nullptr) {
            cluster_.place(id).delay_s = scenario_->next_delay_s(id, moment);
        }
    }

    /// The shares of a place follow from its own and its node's.
    void refresh(Place& where) {
        const Shares& shared = cluster_.node(where.node).own;
        const double device = where.total.device;
        where.total = {.cpu = where.own.cpu * shared.cpu,
                       .rx = shared.rx,
                       .tx = shared.tx,
                       .device = where.own.device * shared.device,
                       .delay_s = where.own.delay_s + shared.delay_s};
        for (const WorkId id : where.computing) {
            Work& each = cluster_.work(id);
            if (each.stage == Stage::kInput) {
                cluster_.fluid.set_max_rate(each.activity, each.cost.cpu_threads * where.total.cpu);
            } else if (each.stage != Stage::kDelay && where.total.device != device) {
                each.left = std::max(0.0, each.left - (cluster_.queue.now() - each.since) * device);
                cluster_.queue.cancel(each.event);
                cluster_.run_device(id);
            }
        }
    }

private:
    void next_rows() {
        while (row_ && row_->time_s <= cluster_.queue.now()) {
            apply(*row_);
            row_ = scenario_->next_row();
        }
        if (row_) {
            cluster_.queue.at(row_->time_s, [this] { next_rows(); });
        }
    }

    void next_arrival() {
        if (std::optional<JobArrival> job = scenario_->next_job()) {
            const double time = std::max(job->time_s, cluster_.queue.now());
            cluster_.queue.at(time, [this, job = *job] {
                arrival_(job);
                next_arrival();
            });
        }
    }

    void apply(const TraceRow& change) {
        check_targets({&change, 1}, static_cast<int>(cluster_.places.size()),
                      static_cast<int>(cluster_.nodes.size()), "trace");
        const Shares& left = change.shares;
        if (!(std::min({left.cpu, left.rx, left.tx, left.device}) > 0) || !(left.delay_s >= 0)) {
            fail<UsageError>(
                {.where = "trace",
                 .what = "a row at " + std::to_string(change.time_s) + " s is out of range",
                 .expected = "shares above 0 and a delay of at least 0"});
        }
        if (change.target.kind == TraceTarget::Kind::kNode) {
            apply_to_node(change.target.index, change.shares);
        } else {
            Place& where = cluster_.place(change.target.index);
            where.own = change.shares;
            refresh(where);
        }
    }

    void apply_to_node(int index, const Shares& shares) {
        Node& where = cluster_.node(index);
        const Shares before = std::exchange(where.own, shares);
        if (shares.rx != before.rx) {
            cluster_.fluid.set_capacity(where.rx, cluster_.profile.nic_bytes_per_s * shares.rx);
        }
        if (shares.tx != before.tx) {
            cluster_.fluid.set_capacity(where.tx, cluster_.profile.nic_bytes_per_s * shares.tx);
        }
        if (shares.cpu != before.cpu) {
            cluster_.fluid.set_capacity(where.cores, cluster_.profile.cores * shares.cpu);
            for (const WorkId id : where.serving) {
                cluster_.fluid.set_max_rate(cluster_.work(id).activity,
                                            cluster_.work(id).max_rate * shares.cpu);
            }
        }
        for (const PlaceId id : where.places) {
            refresh(cluster_.place(id));
        }
    }

    Impl& cluster_;
    std::unique_ptr<Scenario> scenario_;  ///< null: nothing happens
    std::function<void(const JobArrival&)> arrival_;
    std::optional<TraceRow> row_;  ///< the next one
};

}  // namespace cohort
