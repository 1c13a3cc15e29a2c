#include "comm/allreduce/own/node_reducer.hpp"

#include <cstring>
#include <utility>

#include "comm/allreduce/all_reduce_sum.hpp"

namespace cohort {
namespace {

/// Every bucket, every summary of this node, and all summaries from other nodes as one.
std::uint64_t steps_of(const NodeShape& shape) {
    return static_cast<std::uint64_t>(shape.buckets.count() + shape.locals()) +
           (shape.several_nodes() ? 1 : 0);
}

}  // namespace

NodeReducer::NodeReducer(std::byte* memory, NodeShape shape)
    : shape_(std::move(shape)),
      layout_(shape_),
      memory_(memory),
      progress_(*reinterpret_cast<NodeProgress::State*>(memory), steps_of(shape_)),
      summaries_(reinterpret_cast<NodeSummaries::State*>(memory + layout_.members)),
      buckets_(reinterpret_cast<NodeBuckets::State*>(memory + layout_.buckets), shape_) {
}

float* NodeReducer::buffer(int local, std::uint64_t ordinal) const noexcept {
    return reinterpret_cast<float*>(memory_ + layout_.member_offset(local) +
                                    layout_.buffer_bytes * (ordinal % 2));
}

void NodeReducer::submit(std::uint64_t ordinal, std::uint64_t round, const SummaryBytes& summary) {
    summaries_.put(ordinal, shape_.local[static_cast<std::size_t>(shape_.self)], round, summary);
    progress_.advance();
}

void NodeReducer::publish(std::uint64_t ordinal, std::int64_t bucket) {
    if (shape_.locals() == 1) {
        progress_.advance();
        return;
    }
    buckets_.publish(ordinal, bucket);
    progress_.ring_bell();
}

void NodeReducer::deliver(std::uint64_t ordinal, std::int64_t bucket, std::int64_t pieces) {
    if (buckets_.deliver(ordinal, bucket, pieces)) {
        progress_.advance();
    }
}

void NodeReducer::sleep(const Cursor& cursor, std::uint64_t ordinal,
                        const std::atomic<bool>& broken) noexcept {
    progress_.sleep_unless(
        [&] { return progress_.complete(ordinal) || has_work(cursor, ordinal) || broken.load(); });
}

bool NodeReducer::has_work(const Cursor& from, std::uint64_t ordinal) const noexcept {
    const bool fresh = from.ordinal != ordinal;
    const std::int64_t sum = fresh ? 0 : from.sum;
    const std::int64_t copy = fresh ? 0 : from.copy;
    const std::int64_t count = shape_.buckets.count();
    if (shape_.sums_here() && sum < count && buckets_.arrived(ordinal, sum) &&
        buckets_.may_claim_sum(ordinal, sum)) {
        return true;
    }
    return shape_.sum == NodeSum::kFirst && copy < count && buckets_.published(ordinal, copy);
}

bool NodeReducer::work(Cursor& cursor, std::uint64_t ordinal, int blocks) {
    if (cursor.ordinal != ordinal) {
        cursor = {.ordinal = ordinal};
    }
    if (shape_.sum == NodeSum::kNone || shape_.locals() == 1) {
        return false;
    }
    auto& busy = summaries_.busy(shape_.local[static_cast<std::size_t>(shape_.self)]);
    busy.fetch_add(1, std::memory_order_relaxed);
    const bool summed = sum_some(cursor, ordinal, blocks);
    const bool copied = copy_some(cursor, ordinal, blocks);
    busy.fetch_sub(1, std::memory_order_relaxed);
    return summed || copied;
}

bool NodeReducer::sum_some(Cursor& cursor, std::uint64_t ordinal, int& blocks_left) {
    bool some = false;
    while (blocks_left > 0 && cursor.sum < shape_.buckets.count() &&
           buckets_.arrived(ordinal, cursor.sum)) {
        const auto block = buckets_.claim_sum(ordinal, cursor.sum);
        if (!block) {
            ++cursor.sum;
            continue;
        }
        sum_block(ordinal, shape_.block_range(cursor.sum, *block));
        if (buckets_.end_sum(ordinal, cursor.sum) && shape_.sum == NodeSum::kAll) {
            progress_.advance();
        }
        some = true;
        --blocks_left;
    }
    return some;
}

bool NodeReducer::copy_some(Cursor& cursor, std::uint64_t ordinal, int& blocks_left) {
    bool some = false;
    while (shape_.sum == NodeSum::kFirst && blocks_left > 0 &&
           cursor.copy < shape_.buckets.count() && buckets_.published(ordinal, cursor.copy)) {
        const auto block = buckets_.claim_copy(ordinal, cursor.copy);
        if (!block) {
            ++cursor.copy;
            continue;
        }
        copy_block(ordinal, shape_.block_range(cursor.copy, *block));
        if (buckets_.end_copy(ordinal, cursor.copy)) {
            progress_.advance();
        }
        some = true;
        --blocks_left;
    }
    return some;
}

void NodeReducer::sum_block(std::uint64_t ordinal, const FloatRange& range) {
    std::vector<float*> parts;
    parts.reserve(shape_.local.size());
    for (int local = 0; local < shape_.locals(); ++local) {
        parts.push_back(buffer(local, ordinal) + range.begin);
    }
    const auto count = static_cast<std::size_t>(range.size());
    if (shape_.sum == NodeSum::kAll) {
        sum_into_all(parts, count);
    } else {
        sum_into(parts[0], {parts.data(), parts.size()}, count);
    }
}

void NodeReducer::copy_block(std::uint64_t ordinal, const FloatRange& range) {
    const float* from = buffer(0, ordinal) + range.begin;
    for (int local = 1; local < shape_.locals(); ++local) {
        std::memcpy(buffer(local, ordinal) + range.begin, from, range.bytes());
    }
}

std::vector<int> NodeReducer::busy() const {
    std::vector<int> members;
    for (const int member : shape_.local) {
        if (summaries_.busy(member).load(std::memory_order_relaxed) > 0) {
            members.push_back(member);
        }
    }
    return members;
}

}  // namespace cohort
