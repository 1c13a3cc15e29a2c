#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/allreduce/own/node_state.hpp"

namespace cohort {

/// The part of an all-reduce that happens in the memory which the members of one node share.
///
/// A round, counted by ordinals 1, 2, ... that all members agree on:
///  1. Every member writes its contribution into a buffer of its own, bucket by bucket, and counts
///     itself as arrived at each.
///  2. A bucket at which all members have arrived is cut into blocks. Any thread that is awake (a
///     waiting caller or a communication thread) claims a block, sums it over the members in their
///     order and writes the sum to all of them, in place. No slow or sleeping member is needed.
///  3. With several nodes the first member's buffer goes between the nodes, and blocks of the
///     result are copied to the other members in the same way.
///  4. The round is over when all buckets are done and the summaries of all members are received.
/// Cost per node and round of B bytes with n members: n B read and n B written, in one pass; no
/// messages; 2 n B of memory.
class NodeReducer {
public:
    /// Position of one thread that works on blocks.
    struct Cursor {
        std::uint64_t ordinal = 0;
        std::int64_t sum = 0;
        std::int64_t copy = 0;
    };

    /// @param memory  NodeLayout::bytes of them, zeroed, aligned to a page; outlives this
    NodeReducer(std::byte* memory, NodeShape shape);
    NodeReducer(const NodeReducer&) = delete;
    NodeReducer& operator=(const NodeReducer&) = delete;
    ~NodeReducer() = default;

    [[nodiscard]] const NodeShape& shape() const noexcept { return shape_; }
    [[nodiscard]] NodeProgress& progress() noexcept { return progress_; }
    [[nodiscard]] NodeSummaries& summaries() noexcept { return summaries_; }
    [[nodiscard]] NodeBuckets& buckets() noexcept { return buckets_; }
    /// The buffer of a member of this node in a round, [shape().buckets.floats].
    [[nodiscard]] float* buffer(int local, std::uint64_t ordinal) const noexcept;

    /// This member's summary of a round, before its last bucket arrives.
    void submit(std::uint64_t ordinal, std::uint64_t round, const SummaryBytes& summary);
    /// kFirst: the first member's buffer holds the result, to be copied to the others of this node.
    void publish(std::uint64_t ordinal, std::int64_t bucket);
    /// kNone: one of `pieces` pieces of a bucket is the result in all buffers of this node.
    void deliver(std::uint64_t ordinal, std::int64_t bucket, std::int64_t pieces);

    /// Does at most `blocks` blocks of those that can be done. True: did some.
    bool work(Cursor& cursor, std::uint64_t ordinal, int blocks);
    /// Sleeps until the round is complete or there may be work, or until `broken`.
    void sleep(const Cursor& cursor, std::uint64_t ordinal,
               const std::atomic<bool>& broken) noexcept;
    /// Members of this node that hold a block right now.
    [[nodiscard]] std::vector<int> busy() const;

private:
    [[nodiscard]] bool has_work(const Cursor& cursor, std::uint64_t ordinal) const noexcept;
    bool sum_some(Cursor& cursor, std::uint64_t ordinal, int& blocks);
    bool copy_some(Cursor& cursor, std::uint64_t ordinal, int& blocks);
    void sum_block(std::uint64_t ordinal, const FloatRange& range);
    void copy_block(std::uint64_t ordinal, const FloatRange& range);

    const NodeShape shape_;
    const NodeLayout layout_;
    std::byte* memory_;
    NodeProgress progress_;
    NodeSummaries summaries_;
    NodeBuckets buckets_;
};

}  // namespace cohort
