#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/core/wire.hpp"
#include "cohort/core/words.hpp"
#include "cohort/model/source.hpp"

namespace cohort {

/// Whether the gradients of a node's workers are summed there before they are sent to servers.
enum class NodeStaging : std::uint8_t {
    kAuto,  ///< on nodes with several workers and no server, unless the run is deterministic: a sum
            ///< of sums rounds otherwise than one sum
    kOn,    ///< on nodes with several workers
    kOff
};
template <>
inline constexpr auto kWords<NodeStaging> = std::to_array<std::string_view>({"auto", "on", "off"});

/// How the parameters are divided among servers at the start.
enum class ShardSizes : std::uint8_t {
    kEqual,
    kCapacity  ///< as fast as their nodes are, as far as that is known
};
template <>
inline constexpr auto kWords<ShardSizes> = std::to_array<std::string_view>({"equal", "capacity"});

/// Whether shards are resized while the job runs, when a server is slower than the others.
enum class RebalanceServers : std::uint8_t { kOn, kOff };
template <>
inline constexpr auto kWords<RebalanceServers> = std::to_array<std::string_view>({"on", "off"});

/// What any job, real or virtual, trains, on what, how long and with whom.
struct JobOptions : ModelSource {
    std::string data;  ///< dataset file (HDF5)
    std::string out;   ///< folder for results
    bool overwrite = false;
    int servers = 0;  ///< parameter servers; 0: none with rings, else one
    NodeStaging node_staging = NodeStaging::kAuto;
    ShardSizes shards = ShardSizes::kEqual;
    RebalanceServers rebalance_servers = RebalanceServers::kOn;
    Wire wire = Wire::kF32;               ///< type in which gradients and parameters travel
    std::string push_tree = "off";        ///< "off", "auto", or groups of nodes, "0,1,2/3,4"
    std::int64_t batch = 1;               ///< samples per step and worker
    std::int64_t samples = 0;             ///< budget in samples applied; 0: by epochs
    double target_accuracy = 0;           ///< in 0..1; the run ends once test accuracy reaches it
    double target_loss = 0;               ///< the run ends once the test loss is as small; 0: never
    std::int64_t eval_every_samples = 0;  ///< 0: once per epoch
    std::uint64_t seed = 1;               ///< of initial parameters, order, dropout, augmentation
    int threads = 0;                      ///< that compute; 0: all cores
};

}  // namespace cohort
