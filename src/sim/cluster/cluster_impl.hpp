#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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
        int owner = 0;  ///< place of an iteration, node of a server's work
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
        NodeUse use;
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
         std::unique_ptr<Scenario> what_happens);
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

    EventQueue& queue;
    ClusterProfile profile;
    FluidNetwork fluid;
    std::vector<Node> nodes;
    std::vector<Place> places;
    std::vector<PlaceId> free_places;  ///< ids that are used again
    SlotTable<Work> works;
    std::unique_ptr<Transfers> transfers;
    std::unique_ptr<ScenarioPlayer> player;
};

/// Transfers: a latency, then an activity that takes its part of every network card on its way.
/// What stays on a node takes none, but holds the whole to the local rate.
class VirtualCluster::Impl::Transfers {
public:
    explicit Transfers(Impl& cluster) : cluster_(cluster), use_of_(cluster.nodes.size() * 3) {}

    /// Between one node and several that are named, with repetitions.
    WorkId begin(int outer, const std::vector<int>& inner, bool outer_sends, double bytes,
                 Action done);
    WorkId begin_all_reduce(const std::vector<int>& members, double bytes, Action done);
    /// See VirtualCluster::forget_unused.
    std::size_t forget_unused();

private:
    [[nodiscard]] Ends ends_of(const std::vector<int>& named, Work& transfer);
    WorkId begin_latency(WorkId id, double latency, double local_share);
    void begin_flow(WorkId id);
    void add_use(Work& work, FluidNetwork::ResourceId resource);

    Impl& cluster_;
    std::map<std::vector<int>, KnownEnds> ends_;  ///< of scatters and gathers
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
    void start();
    /// Draws the delay of a place's next iteration.
    void begin_iteration(PlaceId id, std::int64_t moment);
    /// The shares of a place follow from its own and its node's.
    void refresh(Place& place);

private:
    void next_rows();
    void next_arrival();
    void apply(const TraceRow& row);
    void apply_to_node(int index, const Shares& shares);

    Impl& cluster_;
    std::unique_ptr<Scenario> scenario_;  ///< null: nothing happens
    std::function<void(const JobArrival&)> arrival_;
    std::optional<TraceRow> row_;  ///< the next one
};

}  // namespace cohort
