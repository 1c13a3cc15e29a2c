#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/allreduce/buckets.hpp"

namespace cohort {

/// What the ranks of one node do with a bucket once all of them have written theirs.
enum class NodeSum : std::uint8_t {
    kAll,    ///< sum it into every member's buffer: no other node takes part
    kFirst,  ///< sum it into the first member's buffer, which then goes between the nodes
    kNone    ///< leave the contributions as they are: they are summed elsewhere
};

/// The members of an all-reduce, and those of them that lie on this node.
struct NodeShape {
    int members = 1;         ///< of the all-reduce
    std::vector<int> local;  ///< member indices on this node, ascending
    int self = 0;            ///< index of this rank in `local`
    Buckets buckets;
    NodeSum sum = NodeSum::kAll;
    [[nodiscard]] int locals() const noexcept { return static_cast<int>(local.size()); }
    [[nodiscard]] bool several_nodes() const noexcept { return sum != NodeSum::kAll; }
    /// Some member of this node sums buckets of this node.
    [[nodiscard]] bool sums_here() const noexcept {
        return sum == NodeSum::kAll || (sum == NodeSum::kFirst && locals() > 1);
    }
    /// A bucket is summed and copied in blocks.
    [[nodiscard]] std::int64_t blocks(std::int64_t bucket) const noexcept;
    [[nodiscard]] FloatRange block_range(std::int64_t bucket, std::int64_t block) const noexcept;
};

/// Where the parts of a node's shared memory begin, in bytes.
struct NodeLayout {
    explicit NodeLayout(const NodeShape& shape);
    std::size_t buckets = 0;
    std::size_t members = 0;
    std::size_t buffers = 0;
    std::size_t buffer_bytes = 0;
    std::size_t bytes = 0;  ///< of all parts

    /// What belongs to one member of the node: two buffers, for even and odd rounds.
    [[nodiscard]] std::size_t member_bytes() const noexcept { return 2 * buffer_bytes; }
    [[nodiscard]] std::size_t member_offset(int local) const noexcept {
        return buffers + member_bytes() * static_cast<std::size_t>(local);
    }
};

}  // namespace cohort
