#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/protocol/links.hpp"
#include "train/run/job_parts.hpp"

namespace cohort {

/// What a parameter server is made of. What it refers to outlives the loop.
struct ServerParts {
    const Graph& graph;
    OptimizerOptions optimizer;
    std::uint64_t seed = 1;      ///< of initial parameters
    int threads = 0;             ///< that apply updates; 0: the cores this process may use
    std::string device = "cpu";  ///< where the shard lies, see device_of_rank
    Hdf5Thread* hdf5 = nullptr;  ///< for checkpoints; null: an order that needs one is an error
};

/// A parameter server's whole life, as protocol.hpp numbers it: takes pushes into memory, applies
/// the updates that the coordinator orders, in its order, and sends new parameters. Parameters are
/// sent for releases of fire orders only: the first ones by a fire without pushes after kBegin.
///
/// Orders are carried out as they came. Pushes that a worker sends are reported (kStaged) before an
/// update of them is ordered; a node's sum (protocol_node.hpp) is ordered before it is received,
/// and that order and those behind it wait for it (OrderLine). Sends are never waited for: what is
/// sent lies in snapshots that do not change.
class ServerLoop {
public:
    /// To be made before anybody can send to this rank's server port, and to live until run() has
    /// returned: transfers in flight write into its memory.
    /// @param server index. Errors: UsageError when there are too many servers, DeviceError.
    ServerLoop(Links links, JobParts& job, int server);
    ServerLoop(Links links, const ServerParts& parts, int server);
    ServerLoop(const ServerLoop&) = delete;
    ServerLoop& operator=(const ServerLoop&) = delete;
    ~ServerLoop();

    /// Works until kStop, receives the last pushes, finishes checkpoints, then sends its final
    /// report. Errors: PeerError for orders that make no sense, FileError for a checkpoint to
    /// begin with that cannot be read.
    void run();

    /// What applies updates, for the start-up header.
    [[nodiscard]] std::string device() const;
    /// kBegin has come: the run has begun for this server. From any thread.
    [[nodiscard]] bool begun() const noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
