#include "comm/allreduce/ring_node.hpp"

#include <cstring>

#include "comm/allreduce/all_reduce_sum.hpp"
#include "comm/allreduce/ring_futex.hpp"

namespace cohort {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::int64_t kBlockFloats = 16 << 10;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace

struct NodePart::Layout {
    explicit Layout(const NodeShape& shape)
        : progress(sizeof(Bell)),
          buckets(progress + sizeof(Progress)),
          members(buckets + sizeof(BucketState) * static_cast<std::size_t>(shape.buckets.count())),
          buffers(round_up(members + sizeof(MemberState) * static_cast<std::size_t>(shape.members),
                           kPage)),
          buffer_bytes(
              round_up(static_cast<std::size_t>(shape.buckets.floats) * sizeof(float), kPage)) {}
    std::size_t progress;
    std::size_t buckets;
    std::size_t members;
    std::size_t buffers;
    std::size_t buffer_bytes;
};

std::size_t NodePart::bytes(const NodeShape& shape) {
    return member_offset(shape, shape.locals());
}

std::size_t NodePart::member_offset(const NodeShape& shape, int local) {
    return Layout(shape).buffers + member_bytes(shape) * static_cast<std::size_t>(local);
}

std::size_t NodePart::member_bytes(const NodeShape& shape) {
    return 2 * Layout(shape).buffer_bytes;
}

// Zero bytes are the start of every counter, so whoever comes first need not prepare the memory.
NodePart::NodePart(std::byte* memory, NodeShape shape)
    : shape_(std::move(shape)),
      memory_(memory),
      bell_(reinterpret_cast<Bell*>(memory)),
      progress_(reinterpret_cast<Progress*>(memory + Layout(shape_).progress)),
      buckets_(reinterpret_cast<BucketState*>(memory + Layout(shape_).buckets)),
      members_(reinterpret_cast<MemberState*>(memory + Layout(shape_).members)) {
}

float* NodePart::buffer(int local, std::uint64_t ordinal) const noexcept {
    const Layout layout(shape_);
    return reinterpret_cast<float*>(memory_ + layout.buffers +
                                    layout.buffer_bytes *
                                        (2 * static_cast<std::size_t>(local) + ordinal % 2));
}

bool NodePart::sums_here() const noexcept {
    return shape_.sum == NodeSum::kAll || (shape_.sum == NodeSum::kFirst && shape_.locals() > 1);
}

std::int64_t NodePart::blocks(std::int64_t bucket) const noexcept {
    return (shape_.buckets.range(bucket).size() + kBlockFloats - 1) / kBlockFloats;
}

FloatRange NodePart::block_range(std::int64_t bucket, std::int64_t block) const noexcept {
    const FloatRange whole = shape_.buckets.range(bucket);
    const std::int64_t begin = whole.begin + block * kBlockFloats;
    return {begin, std::min(whole.end, begin + kBlockFloats)};
}

bool NodePart::arrive(std::uint64_t ordinal, std::int64_t from, std::int64_t to) {
    const std::uint64_t all = ordinal * static_cast<std::uint64_t>(shape_.locals());
    bool last = false;
    for (std::int64_t bucket = from; bucket < to; ++bucket) {
        last = buckets_[bucket].arrived.fetch_add(1) + 1 == all || last;
    }
    return last;
}

bool NodePart::arrived(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
    return buckets_[bucket].arrived.load() >= ordinal * static_cast<std::uint64_t>(shape_.locals());
}

bool NodePart::summed(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
    if (!sums_here()) {
        return arrived(ordinal, bucket);
    }
    return buckets_[bucket].summed.load() >= ordinal * static_cast<std::uint64_t>(blocks(bucket));
}

void NodePart::publish(std::uint64_t ordinal, std::int64_t bucket) {
    if (shape_.locals() == 1) {
        advance_progress();
        return;
    }
    buckets_[bucket].published.store(ordinal);
    ring_bell();
}

void NodePart::deliver(std::uint64_t ordinal, std::int64_t bucket, std::int64_t pieces) {
    if (buckets_[bucket].summed.fetch_add(1) + 1 == ordinal * static_cast<std::uint64_t>(pieces)) {
        advance_progress();
    }
}

void NodePart::mark_sent(std::int64_t bucket) {
    buckets_[bucket].sent.fetch_add(1);
}

bool NodePart::all_sent(std::uint64_t ordinal, std::int64_t bucket) const noexcept {
    return buckets_[bucket].sent.load() >= ordinal * static_cast<std::uint64_t>(shape_.locals());
}

void NodePart::hand_in(std::uint64_t ordinal, std::uint64_t round, const RingTail& tail) {
    put_tail(ordinal, shape_.local[static_cast<std::size_t>(shape_.self)], round, tail);
    advance_progress();
}

void NodePart::put_tail(std::uint64_t ordinal, int member, std::uint64_t round,
                        const RingTail& tail) {
    MemberState& state = members_[member];
    state.tail[ordinal % 2] = tail;
    state.round[ordinal % 2] = round;
    state.handed.store(ordinal, std::memory_order_release);
}

void NodePart::tails_complete() {
    advance_progress();
}

bool NodePart::handed_in(std::uint64_t ordinal, int member) const noexcept {
    return members_[member].handed.load() >= ordinal;
}

const RingTail& NodePart::tail(std::uint64_t ordinal, int member) const noexcept {
    return members_[member].tail[ordinal % 2];
}

std::uint64_t NodePart::round_of(std::uint64_t ordinal, int member) const noexcept {
    return members_[member].round[ordinal % 2];
}

// Steps of a round: every bucket, every local tail, and all tails from elsewhere as one.
std::uint64_t NodePart::steps() const noexcept {
    return static_cast<std::uint64_t>(shape_.buckets.count() + shape_.locals()) +
           (shape_.several_nodes() ? 1 : 0);
}

void NodePart::advance_progress() noexcept {
    if ((progress_->value.fetch_add(1) + 1) % steps() == 0) {
        ring_bell();
    }
}

bool NodePart::complete(std::uint64_t ordinal) const noexcept {
    return progress_->value.load() >= ordinal * steps();
}

bool NodePart::ring_bell() noexcept {
    if (bell_->sleepers.load() == 0) {
        return false;
    }
    bell_->word.fetch_add(1);
    futex_wake_all(bell_->word);
    return true;
}

// Who sleeps has counted itself before it looked for the last time, who rings looks for sleepers
// after what it tells, all in one total order: one of the two sees the other.
void NodePart::sleep(const Cursor& cursor, std::uint64_t ordinal,
                     const std::atomic<bool>& broken) noexcept {
    const std::uint32_t before = bell_->word.load();
    bell_->sleepers.fetch_add(1);
    if (!complete(ordinal) && !has_work(cursor, ordinal) && !broken.load()) {
        futex_sleep(bell_->word, before);
    }
    bell_->sleepers.fetch_sub(1);
}

bool NodePart::has_work(const Cursor& from, std::uint64_t ordinal) const noexcept {
    const bool fresh = from.ordinal != ordinal;
    const std::int64_t sum = fresh ? 0 : from.sum;
    const std::int64_t copy = fresh ? 0 : from.copy;
    const std::int64_t count = shape_.buckets.count();
    if (sums_here() && sum < count && arrived(ordinal, sum) &&
        buckets_[sum].sum_claimed.load() < ordinal * static_cast<std::uint64_t>(blocks(sum))) {
        return true;
    }
    return shape_.sum == NodeSum::kFirst && copy < count &&
           buckets_[copy].published.load() >= ordinal;
}

// A claim counter runs from (ordinal - 1) * count to ordinal * count in a round: a thread that
// still thinks of an earlier round finds nothing to claim.
bool NodePart::claim(Counter& claimed, std::uint64_t ordinal, std::int64_t count,
                     std::int64_t& block) {
    const auto per_round = static_cast<std::uint64_t>(count);
    std::uint64_t value = claimed.load();
    while (value < ordinal * per_round) {
        if (claimed.compare_exchange_weak(value, value + 1)) {
            block = static_cast<std::int64_t>(value - (ordinal - 1) * per_round);
            return true;
        }
    }
    return false;
}

bool NodePart::work(Cursor& cursor, std::uint64_t ordinal, int blocks) {
    if (cursor.ordinal != ordinal) {
        cursor = {.ordinal = ordinal};
    }
    if (shape_.sum == NodeSum::kNone || shape_.locals() == 1) {
        return false;
    }
    auto& busy = members_[shape_.local[static_cast<std::size_t>(shape_.self)]].busy;
    busy.fetch_add(1, std::memory_order_relaxed);
    const bool summed = sum_some(cursor, ordinal, blocks);
    const bool copied = copy_some(cursor, ordinal, blocks);
    busy.fetch_sub(1, std::memory_order_relaxed);
    return summed || copied;
}

bool NodePart::sum_some(Cursor& cursor, std::uint64_t ordinal, int& blocks_left) {
    bool some = false;
    while (blocks_left > 0 && cursor.sum < shape_.buckets.count() && arrived(ordinal, cursor.sum)) {
        std::int64_t block = 0;
        const std::int64_t count = blocks(cursor.sum);
        BucketState& state = buckets_[cursor.sum];
        if (!claim(state.sum_claimed, ordinal, count, block)) {
            ++cursor.sum;
            continue;
        }
        sum_block(ordinal, cursor.sum, block);
        const bool last =
            state.summed.fetch_add(1) + 1 == ordinal * static_cast<std::uint64_t>(count);
        if (last && shape_.sum == NodeSum::kAll) {
            advance_progress();
        }
        some = true;
        --blocks_left;
    }
    return some;
}

bool NodePart::copy_some(Cursor& cursor, std::uint64_t ordinal, int& blocks_left) {
    bool some = false;
    while (shape_.sum == NodeSum::kFirst && blocks_left > 0 &&
           cursor.copy < shape_.buckets.count() &&
           buckets_[cursor.copy].published.load() >= ordinal) {
        std::int64_t block = 0;
        const std::int64_t count = blocks(cursor.copy);
        BucketState& state = buckets_[cursor.copy];
        if (!claim(state.copy_claimed, ordinal, count, block)) {
            ++cursor.copy;
            continue;
        }
        copy_block(ordinal, cursor.copy, block);
        if (state.copied.fetch_add(1) + 1 == ordinal * static_cast<std::uint64_t>(count)) {
            advance_progress();
        }
        some = true;
        --blocks_left;
    }
    return some;
}

void NodePart::sum_block(std::uint64_t ordinal, std::int64_t bucket, std::int64_t block) {
    const FloatRange range = block_range(bucket, block);
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

void NodePart::copy_block(std::uint64_t ordinal, std::int64_t bucket, std::int64_t block) {
    const FloatRange range = block_range(bucket, block);
    const float* from = buffer(0, ordinal) + range.begin;
    for (int local = 1; local < shape_.locals(); ++local) {
        std::memcpy(buffer(local, ordinal) + range.begin, from,
                    static_cast<std::size_t>(range.size()) * sizeof(float));
    }
}

std::vector<int> NodePart::busy() const {
    std::vector<int> members;
    for (const int member : shape_.local) {
        if (members_[member].busy.load(std::memory_order_relaxed) > 0) {
            members.push_back(member);
        }
    }
    return members;
}

}  // namespace cohort
