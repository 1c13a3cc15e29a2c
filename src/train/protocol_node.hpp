#pragma once

#include <cstdint>

#include "protocol.hpp"

namespace cohort {

/// The sum of a node's pushes for one update is a push itself: its "worker" is -1 - node, its
/// sequence the version after the update. When its maker is lost another rank of the node makes it
/// again, with the same bits, under the next incarnation; whichever is complete is used.
[[nodiscard]] inline PushId node_sum(int node, std::int64_t version,
                                     std::uint32_t incarnation = 0) noexcept {
    return {.worker = -1 - node,
            .incarnation = incarnation,
            .sequence = static_cast<std::uint64_t>(version)};
}
[[nodiscard]] inline bool is_node_sum(const PushId& push) noexcept {
    return push.worker < 0;
}
[[nodiscard]] inline int node_of_sum(const PushId& push) noexcept {
    return -1 - push.worker;
}
/// A push of a worker, or a node's sum whatever its incarnation.
[[nodiscard]] inline bool same_push(const PushId& a, const PushId& b) noexcept {
    return is_node_sum(a) ? a.worker == b.worker && a.sequence == b.sequence : a == b;
}

}  // namespace cohort
