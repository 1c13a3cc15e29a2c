#pragma once

#include <map>
#include <optional>

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
    struct KnownEnds;
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

    Impl(EventQueue& events, const ClusterProfile& kind, int node_count,
         std::unique_ptr<Scenario> what_happens);

    // The scenario, cluster_scenario.cpp.
    void next_rows();
    void next_arrival();
    void apply(const TraceRow& row);
    void apply_to_node(int index, const Shares& shares);
    void refresh(Place& place);

    // Iterations and servers' work, cluster.cpp.
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

    /// The cards of several nodes, in proportion to how often each is named.
    struct Ends {
        FluidNetwork::ResourceId rx = 0;
        FluidNetwork::ResourceId tx = 0;
    };
    struct KnownEnds : Ends {
        int transfers = 0;  ///< under way
        bool recent = false;
    };

    // Transfers, cluster_transfers.cpp.
    WorkId transfer(int outer, const std::vector<int>& inner, bool outer_sends, double bytes,
                    Action done);
    [[nodiscard]] Ends ends_of(const std::vector<int>& named, Work& transfer);
    WorkId begin_transfer(WorkId id, double latency, double local_share);
    void begin_flow(WorkId id);
    void add_use(std::vector<FluidNetwork::Use>& uses, FluidNetwork::ResourceId resource,
                 double share);

    [[nodiscard]] Node& node(int index) { return nodes[static_cast<std::size_t>(index)]; }
    [[nodiscard]] Place& place(int index) { return places[static_cast<std::size_t>(index)]; }
    [[nodiscard]] Work& work(WorkId id) { return works[works.index_of(id)]; }
    WorkId take(Stage stage, int owner, Action done);

    EventQueue& queue;
    ClusterProfile profile;
    FluidNetwork fluid;
    std::unique_ptr<Scenario> scenario;
    std::vector<Node> nodes;
    std::vector<Place> places;
    std::vector<PlaceId> free_places;            ///< ids that are used again
    std::map<std::vector<int>, KnownEnds> ends;  ///< of scatters and gathers
    SlotTable<Work> works;
    std::function<void(const JobArrival&)> arrival;
    std::optional<TraceRow> row;
    std::vector<std::uint32_t> use_of;  ///< by resource: 1 + index in the uses being made, or 0
};

}  // namespace cohort
