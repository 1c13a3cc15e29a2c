#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/protocol/comm_context.hpp"
#include "train/run/job_context.hpp"
#include "train/server/server_checkpoints.hpp"
#include "train/server/server_shard.hpp"
#include "train/server/server_staging.hpp"
#include "train/server/shard_exchange.hpp"

namespace cohort {

/// What a parameter server is made of. What it refers to outlives the loop.
struct ServerParts {
    const Graph& graph;
    OptimizerOptions optimizer;
    std::uint64_t seed = 1;      ///< of initial parameters
    int threads = 0;             ///< that apply updates; 0: the cores this process may use
    std::string device = "cpu";  ///< where the shard lies, see device_of_rank
    Hdf5Thread* hdf5 = nullptr;  ///< for checkpoints; null: an order that needs one is an error
    std::vector<double> shares = {};  ///< of the parameters at the start; empty: equal ones
    Wire wire = Wire::kF32;
};

/// A parameter server's whole life, as protocol.hpp numbers it: takes pushes into memory, applies
/// the updates that the coordinator orders, in its order, and sends new parameters. Parameters are
/// sent for releases of fire orders only: the first ones by a fire without pushes after kBegin.
///
/// Orders are carried out as they came. Pushes that a worker sends are reported (kPushReceived)
/// before an update of them is ordered; a node's sum (protocol_node.hpp) is ordered before it is
/// received, and that order and those behind it wait for it (OrderLine). Sends are never waited
/// for: what is sent lies in snapshots that do not change.
class ServerLoop {
public:
    /// To be made before anybody can send to this rank's server port, and to live until run() has
    /// returned: transfers in flight write into its memory.
    /// @param server index. Errors: UsageError when there are too many servers, DeviceError.
    ServerLoop(CommContext comm, JobContext& job, int server);
    ServerLoop(CommContext comm, const ServerParts& parts, int server);
    ServerLoop(const ServerLoop&) = delete;
    ServerLoop& operator=(const ServerLoop&) = delete;
    ~ServerLoop();

    /// Works until kStop, receives the last pushes, finishes checkpoints, then sends its final
    /// report. Errors: PeerError for orders that make no sense, FileError for a checkpoint to
    /// begin with that cannot be read.
    void run();

    /// What applies updates, for the start-up header.
    [[nodiscard]] std::string device() const { return shard_.store().device(); }
    /// kBegin has come: the run has begun for this server. From any thread.
    [[nodiscard]] bool begun() const noexcept { return begun_; }

private:
    template <class Body>
    void tell_coordinator(MessageKind kind, const Body& body) {
        comm_.send({0, Port::kCoordinator}, Port::kServer, kind, body);
    }

    void handle(const Message& message);
    void begin(const BeginOrder& order);
    void pushed(PushId push);
    [[nodiscard]] Message next();
    void advance();
    void carry_out(const OrderLine::Update& update);
    void carry_out(const ReferenceOrder& order) { shard_.set_reference(order.push); }
    void carry_out(const ShardLayout& order);
    void carry_out(const Empty& /*stop*/) { stopped_ = true; }
    void end_move();
    void fire(const FireOrder& order);
    void save(const std::string& checkpoint);
    /// A part of the shard that leaves.
    struct Leaving {
        std::shared_ptr<OutgoingTransfer> transfer;
        std::int64_t begin = 0;  ///< its first float in the shard
        PulledBytes form;
    };
    [[nodiscard]] std::vector<Leaving> start_sending(const FireOrder& order,
                                                     const FireOutput& output);
    /// @param copy  of the shard, of which the floats from `begin` on leave
    template <class Kind, class Header>
    [[nodiscard]] Leaving start(Address to, Kind kind, const Header& header, Wire wire,
                                std::shared_ptr<const float> copy, std::int64_t begin,
                                std::int64_t floats);
    void receive_last_pushes();
    [[nodiscard]] Farewell final_report() const;

    CommContext comm_;
    ServerParts parts_;
    int server_;
    ShardLayout layout_;
    ServerShard shard_;
    ServerSink sink_{shard_.staging()};
    ShardExchange exchange_{comm_, server_, sink_};
    OrderLine line_;                     ///< orders not carried out
    std::optional<ShardWriter> writer_;  ///< with an Hdf5Thread
    std::uint64_t waits_ = 0;
    std::atomic<bool> begun_{false};
    bool stopped_ = false;
};

}  // namespace cohort
