#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/allreduce/ring_buckets.hpp"
#include "comm/allreduce/ring_exchange.hpp"

namespace cohort {

/// What the ranks of one node do with a bucket once all of them have written theirs.
enum class NodeSum : std::uint8_t {
    kAll,    ///< sum it into every member's buffer: nobody else takes part
    kFirst,  ///< sum it into the first member's buffer, which then goes between the nodes
    kNone    ///< leave the contributions as they are: they are summed elsewhere
};

/// Who takes part, and who of them is here.
struct NodeShape {
    int members = 1;         ///< of the exchange
    std::vector<int> local;  ///< member indices on this node, ascending
    int self = 0;            ///< index of this rank in `local`
    Buckets buckets;
    NodeSum sum = NodeSum::kAll;
    [[nodiscard]] int locals() const noexcept { return static_cast<int>(local.size()); }
    [[nodiscard]] bool several_nodes() const noexcept { return sum != NodeSum::kAll; }
};

/// The part of a ring exchange that happens in memory which the members on one node share.
///
/// A round, counted by ordinals 1, 2, ... that all members agree on:
///  1. Every member writes its contribution into a buffer of its own, bucket by bucket, and counts
///     itself as arrived at each.
///  2. A bucket at which all have arrived is cut into blocks. Whoever is awake (a waiting caller
///     or a communication thread) claims a block, sums it over the members in their order and
///     writes the sum to all of them, in place. A slow or sleeping member is not needed for it.
///  3. With several nodes the first member's buffer goes between the nodes, and blocks of the
///     result are copied to the other members in the same way.
///  4. The round is over when all buckets are done and all members' tails are here.
/// All counters only grow, so nothing is reset between rounds and a late look does no harm.
/// Cost per node and round of B bytes with n members: n B read and n B written, in one pass; no
/// messages; 2 n B of memory.
class NodePart {
public:
    /// Position of one thread that helps with blocks.
    struct Cursor {
        std::uint64_t ordinal = 0;
        std::int64_t sum = 0;
        std::int64_t copy = 0;
    };

    [[nodiscard]] static std::size_t bytes(const NodeShape& shape);
    /// Offset and size of what belongs to one member of the node.
    [[nodiscard]] static std::size_t member_offset(const NodeShape& shape, int local);
    [[nodiscard]] static std::size_t member_bytes(const NodeShape& shape);

    /// @param memory  bytes(shape) of them, zeroed, aligned to a page; outlives this
    NodePart(std::byte* memory, NodeShape shape);

    [[nodiscard]] const NodeShape& shape() const noexcept { return shape_; }
    /// The buffer of a member of this node in a round, [buckets.floats].
    [[nodiscard]] float* buffer(int local, std::uint64_t ordinal) const noexcept;

    /// This member's part of the buckets [from, to) is final. True: it was the last to arrive at
    /// one of them, so that there is something to do.
    bool arrive(std::uint64_t ordinal, std::int64_t from, std::int64_t to);
    [[nodiscard]] bool arrived(std::uint64_t ordinal, std::int64_t bucket) const noexcept;
    /// All blocks of a bucket are summed as `sum` says.
    [[nodiscard]] bool summed(std::uint64_t ordinal, std::int64_t bucket) const noexcept;
    /// kFirst: the first member's buffer holds the result, to be copied to the others here.
    void publish(std::uint64_t ordinal, std::int64_t bucket);
    /// kNone: one of `pieces` pieces of a bucket is the result in all buffers of this node.
    void deliver(std::uint64_t ordinal, std::int64_t bucket, std::int64_t pieces);
    /// kNone: nothing of this member's contribution to a bucket is on its way out any more.
    void mark_sent(std::int64_t bucket);
    /// The same for all members of this node: their buffers may be overwritten with sums.
    [[nodiscard]] bool all_sent(std::uint64_t ordinal, std::int64_t bucket) const noexcept;

    /// This member's last word in a round, before its last bucket arrives.
    void hand_in(std::uint64_t ordinal, std::uint64_t round, const RingTail& tail);
    /// The last word of a member of another node, as it came in.
    void put_tail(std::uint64_t ordinal, int member, std::uint64_t round, const RingTail& tail);
    /// All tails of other nodes are here.
    void tails_complete();
    [[nodiscard]] bool handed_in(std::uint64_t ordinal, int member) const noexcept;
    [[nodiscard]] const RingTail& tail(std::uint64_t ordinal, int member) const noexcept;
    /// The round's number as that member knows it.
    [[nodiscard]] std::uint64_t round_of(std::uint64_t ordinal, int member) const noexcept;

    /// Does at most `blocks` blocks that are there to be done. True: did some.
    bool work(Cursor& cursor, std::uint64_t ordinal, int blocks);
    [[nodiscard]] bool complete(std::uint64_t ordinal) const noexcept;
    /// Sleeps until the round is complete or there may be something to do, or until `broken`.
    void sleep(const Cursor& cursor, std::uint64_t ordinal,
               const std::atomic<bool>& broken) noexcept;
    /// Wakes members that sleep; false when nobody does.
    bool ring_bell() noexcept;

    /// Members of this node that hold a block right now.
    [[nodiscard]] std::vector<int> busy() const;
    [[nodiscard]] std::int64_t blocks(std::int64_t bucket) const noexcept;

private:
    using Counter = std::atomic<std::uint64_t>;
    struct alignas(64) Bell {
        std::atomic<std::uint32_t> word{0};
        std::atomic<std::uint32_t> sleepers{0};
    };
    struct alignas(64) Progress {
        Counter value{0};
    };
    /// Per bucket. Claims and completions of blocks and pieces.
    struct alignas(64) BucketState {
        Counter arrived{0};
        Counter summed{0};
        Counter published{0};
        Counter copied{0};
        Counter sent{0};
        alignas(64) Counter sum_claimed{0};
        Counter copy_claimed{0};
    };
    /// Per member of the exchange; `busy` only of those here.
    struct alignas(64) MemberState {
        Counter handed{0};
        std::atomic<std::uint32_t> busy{0};
        std::array<std::uint64_t, 2> round{};
        std::array<RingTail, 2> tail{};
    };
    struct Layout;

    [[nodiscard]] bool has_work(const Cursor& cursor, std::uint64_t ordinal) const noexcept;
    bool claim(Counter& claimed, std::uint64_t ordinal, std::int64_t count, std::int64_t& block);
    bool sum_some(Cursor& cursor, std::uint64_t ordinal, int& blocks);
    bool copy_some(Cursor& cursor, std::uint64_t ordinal, int& blocks);
    void sum_block(std::uint64_t ordinal, std::int64_t bucket, std::int64_t block);
    void copy_block(std::uint64_t ordinal, std::int64_t bucket, std::int64_t block);
    [[nodiscard]] FloatRange block_range(std::int64_t bucket, std::int64_t block) const noexcept;
    void advance_progress() noexcept;
    [[nodiscard]] std::uint64_t steps() const noexcept;
    [[nodiscard]] bool sums_here() const noexcept;

    NodeShape shape_;
    std::byte* memory_;
    Bell* bell_;
    Progress* progress_;
    BucketState* buckets_;
    MemberState* members_;
};

}  // namespace cohort
