#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cohort/core/words.hpp"

// Rules of jobs that share nodes; docs/making-room.md describes them.
namespace cohort {

/// How the nodes of parameter servers are chosen.
enum class PlacementRule : std::uint8_t {
    kWaits,        ///< least sum of the shares of their iterations that jobs wait for transfers
    kUtilisation,  ///< least of the largest utilisation over nodes and resources
    kEven,         ///< each server on the node with the fewest servers
    kPacked,       ///< all servers of a job on the node with the fewest servers
    kRandom,       ///< uniformly drawn nodes
    kBeside,       ///< in turn on the nodes of the job's workers, those with most workers first
    kStar          ///< as STAR's published code: server i on node i, whatever the load
};

template <>
inline constexpr auto kWords<PlacementRule> = std::to_array<std::string_view>(
    {"waits", "utilisation", "even", "packed", "random", "beside", "star"});

/// When room is made for a job at the expense of others.
enum class RoomRule : std::uint8_t {
    kOff,       ///< never: all weights are 1
    kProgress,  ///< when the sum of relative progress grows
    kShortest,  ///< the same of progress as a share of what a job has left: who gives to a job that
                ///< ends sooner gets it back then, and has no least pace until then
    kStar  ///< as STAR: when the asker's iteration shortens by more seconds than the iterations
           ///< of the others lengthen
};

template <>
inline constexpr auto kWords<RoomRule> = std::to_array<std::string_view>({"off", "progress",
                                                                          "shortest", "star"});

}  // namespace cohort
