#include "comm/allreduce/own/node_state.hpp"

#include <algorithm>

namespace cohort {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::int64_t kBlockFloats = 16 << 10;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace

std::int64_t NodeShape::blocks(std::int64_t bucket) const noexcept {
    return (buckets.range(bucket).size() + kBlockFloats - 1) / kBlockFloats;
}

FloatRange NodeShape::block_range(std::int64_t bucket, std::int64_t block) const noexcept {
    const FloatRange whole = buckets.range(bucket);
    const std::int64_t begin = whole.begin + block * kBlockFloats;
    return {begin, std::min(whole.end, begin + kBlockFloats)};
}

NodeLayout::NodeLayout(const NodeShape& shape)
    : buckets(sizeof(NodeProgress::State)),
      members(buckets +
              sizeof(NodeBuckets::State) * static_cast<std::size_t>(shape.buckets.count())),
      buffers(round_up(
          members + sizeof(NodeSummaries::State) * static_cast<std::size_t>(shape.members), kPage)),
      buffer_bytes(round_up(static_cast<std::size_t>(shape.buckets.floats) * sizeof(float), kPage)),
      bytes(member_offset(shape.locals())) {
}

void NodeProgress::advance() noexcept {
    if ((state_.steps.fetch_add(1) + 1) % steps_ == 0) {
        ring_bell();
    }
}

bool NodeProgress::ring_bell() noexcept {
    if (state_.sleepers.load() == 0) {
        return false;
    }
    state_.bell.fetch_add(1);
    futex_wake_all(state_.bell);
    return true;
}

void NodeSummaries::put(std::uint64_t ordinal, int member, std::uint64_t round,
                        const SummaryBytes& summary) {
    State& state = states_[member];
    state.summary[ordinal % 2] = summary;
    state.round[ordinal % 2] = round;
    state.submitted.store(ordinal, std::memory_order_release);
}

bool NodeBuckets::arrive(std::uint64_t ordinal, std::int64_t from, std::int64_t to) {
    const std::uint64_t all = times_locals(ordinal);
    bool last = false;
    for (std::int64_t bucket = from; bucket < to; ++bucket) {
        last = states_[bucket].arrived.fetch_add(1) + 1 == all || last;
    }
    return last;
}

bool NodeBuckets::summed(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
    return shape_.sums_here() ? states_[bucket].summed.load() >= blocks_until(ordinal, bucket)
                              : arrived(ordinal, bucket);
}

// A claim counter runs from (ordinal - 1) * blocks to ordinal * blocks in a round: a thread that
// still works on an earlier round finds nothing to claim.
std::optional<std::int64_t> NodeBuckets::claim(NodeCounter& claimed, std::uint64_t ordinal,
                                               std::int64_t bucket) const {
    const std::uint64_t end = blocks_until(ordinal, bucket);
    std::uint64_t value = claimed.load();
    while (value < end) {
        if (claimed.compare_exchange_weak(value, value + 1)) {
            return static_cast<std::int64_t>(value - blocks_until(ordinal - 1, bucket));
        }
    }
    return std::nullopt;
}

}  // namespace cohort
