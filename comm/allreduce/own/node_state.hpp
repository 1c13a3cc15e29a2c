#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "comm/allreduce/buckets.hpp"
#include "comm/base/futex.hpp"

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

// What the members of a node tell each other in their shared memory. Zero bytes are the start of
// every counter, so the first member to come need not prepare the memory. All counters only grow,
// so nothing is reset between rounds, and a thread that reads one late does no harm.

using NodeCounter = std::atomic<std::uint64_t>;

/// How far a node is in its rounds, and the bell on which members sleep.
class NodeProgress {
public:
    struct alignas(64) State {
        std::atomic<std::uint32_t> bell{0};
        std::atomic<std::uint32_t> sleepers{0};
        alignas(64) NodeCounter steps{0};
    };
    /// @param steps  of a round
    NodeProgress(State& state, std::uint64_t steps) : state_(state), steps_(steps) {}

    /// A step of the current round is done; the last one wakes the members that sleep.
    void advance() noexcept;
    [[nodiscard]] bool complete(std::uint64_t ordinal) const noexcept {
        return state_.steps.load() >= ordinal * steps_;
    }
    /// Wakes members that sleep; false when none does.
    bool ring_bell() noexcept;
    /// Sleeps until the bell rings, unless `awake()` says that there is no need to. A sleeper
    /// counts itself before it looks for the last time, a ringer looks for sleepers after it has
    /// changed something, all in one total order: one of the two sees the other.
    template <class Awake>
    void sleep_unless(const Awake& awake) noexcept {
        const std::uint32_t before = state_.bell.load();
        state_.sleepers.fetch_add(1);
        if (!awake()) {
            futex_sleep(state_.bell, before);
        }
        state_.sleepers.fetch_sub(1);
    }

private:
    State& state_;
    std::uint64_t steps_;
};

/// The summaries of all members of an all-reduce, as far as this node has them.
class NodeSummaries {
public:
    struct alignas(64) State {
        NodeCounter submitted{0};
        std::atomic<std::uint32_t> busy{0};  ///< threads of the member that hold a block
        std::array<std::uint64_t, 2> round{};
        std::array<SummaryBytes, 2> summary{};
    };
    explicit NodeSummaries(State* states) : states_(states) {}

    void put(std::uint64_t ordinal, int member, std::uint64_t round, const SummaryBytes& summary);
    [[nodiscard]] bool submitted(std::uint64_t ordinal, int member) const noexcept {
        return states_[member].submitted.load() >= ordinal;
    }
    [[nodiscard]] const SummaryBytes& summary(std::uint64_t ordinal, int member) const noexcept {
        return states_[member].summary[ordinal % 2];
    }
    /// The round's number as that member knows it.
    [[nodiscard]] std::uint64_t round_of(std::uint64_t ordinal, int member) const noexcept {
        return states_[member].round[ordinal % 2];
    }
    [[nodiscard]] std::atomic<std::uint32_t>& busy(int member) const noexcept {
        return states_[member].busy;
    }

private:
    State* states_;
};

/// How far each bucket of a node is: written, summed, published, copied.
class NodeBuckets {
public:
    struct alignas(64) State {
        NodeCounter arrived{0};
        NodeCounter summed{0};
        NodeCounter published{0};
        NodeCounter copied{0};
        NodeCounter sent{0};
        alignas(64) NodeCounter sum_claimed{0};
        NodeCounter copy_claimed{0};
    };
    /// `shape` outlives this.
    NodeBuckets(State* states, const NodeShape& shape) : states_(states), shape_(shape) {}

    /// This member's part of the buckets [from, to) is final. True: it was the last member to
    /// arrive at one of them, so that there is work.
    bool arrive(std::uint64_t ordinal, std::int64_t from, std::int64_t to);
    [[nodiscard]] bool arrived(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
        return states_[bucket].arrived.load() >= times_locals(ordinal);
    }
    /// All blocks of a bucket are summed as NodeShape::sum says.
    [[nodiscard]] bool summed(std::uint64_t ordinal, std::int64_t bucket) const noexcept;
    void publish(std::uint64_t ordinal, std::int64_t bucket) {
        states_[bucket].published.store(ordinal);
    }
    [[nodiscard]] bool published(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
        return states_[bucket].published.load() >= ordinal;
    }
    /// True: it was the last of `pieces` pieces.
    [[nodiscard]] bool deliver(std::uint64_t ordinal, std::int64_t bucket, std::int64_t pieces) {
        return states_[bucket].summed.fetch_add(1) + 1 ==
               ordinal * static_cast<std::uint64_t>(pieces);
    }
    /// kNone: nothing of this member's contribution to a bucket is being sent any more.
    void mark_sent(std::int64_t bucket) { states_[bucket].sent.fetch_add(1); }
    /// The same for all members of this node: their buffers may be overwritten with sums.
    [[nodiscard]] bool all_sent(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
        return states_[bucket].sent.load() >= times_locals(ordinal);
    }

    /// A block of a bucket that no other thread has claimed.
    [[nodiscard]] std::optional<std::int64_t> claim_sum(std::uint64_t ordinal,
                                                        std::int64_t bucket) {
        return claim(states_[bucket].sum_claimed, ordinal, bucket);
    }
    [[nodiscard]] std::optional<std::int64_t> claim_copy(std::uint64_t ordinal,
                                                         std::int64_t bucket) {
        return claim(states_[bucket].copy_claimed, ordinal, bucket);
    }
    [[nodiscard]] bool may_claim_sum(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
        return states_[bucket].sum_claimed.load() < blocks_until(ordinal, bucket);
    }
    /// A claimed block is done. True: it was the bucket's last one.
    [[nodiscard]] bool end_sum(std::uint64_t ordinal, std::int64_t bucket) {
        return states_[bucket].summed.fetch_add(1) + 1 == blocks_until(ordinal, bucket);
    }
    [[nodiscard]] bool end_copy(std::uint64_t ordinal, std::int64_t bucket) {
        return states_[bucket].copied.fetch_add(1) + 1 == blocks_until(ordinal, bucket);
    }

private:
    [[nodiscard]] std::uint64_t times_locals(std::uint64_t ordinal) const noexcept {
        return ordinal * static_cast<std::uint64_t>(shape_.locals());
    }
    [[nodiscard]] std::uint64_t blocks_until(std::uint64_t ordinal, std::int64_t bucket) const {
        return ordinal * static_cast<std::uint64_t>(shape_.blocks(bucket));
    }
    [[nodiscard]] std::optional<std::int64_t> claim(NodeCounter& claimed, std::uint64_t ordinal,
                                                    std::int64_t bucket) const;

    State* states_;
    const NodeShape& shape_;
};

}  // namespace cohort
