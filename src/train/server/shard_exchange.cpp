#include "train/server/shard_exchange.hpp"

#include <algorithm>
#include <memory>

#include "cohort/core/error.hpp"
#include "sched/servers/shard_shares.hpp"
#include "train/protocol/complete_transfers.hpp"

namespace cohort {
namespace {

std::size_t floats_of(std::int64_t begin, std::int64_t end) {
    return static_cast<std::size_t>(end - begin);
}

std::vector<double> cuts_of(const ShardLayout& layout) {
    std::vector<double> cuts{0};
    cuts.insert(cuts.end(), layout.ends.begin(), layout.ends.end());
    return cuts;
}

/// Copies [begin, end) between arrays whose first elements are those of `from_begin` and
/// `to_begin`.
void copy_range(const float* from, std::int64_t from_begin, float* to, std::int64_t to_begin,
                std::int64_t begin, std::int64_t end) {
    std::copy_n(from + (begin - from_begin), end - begin, to + (begin - to_begin));
}

}  // namespace

ServerSink::~ServerSink() {
    for (auto& [key, part] : parts_) {
        if (!part.here) {
            keep_for_good(std::make_shared<std::vector<float>>(std::move(part.values)));
        }
    }
}

std::span<std::byte> ServerSink::accept(const Message& announcement, std::uint64_t bytes) {
    if (static_cast<MessageKind>(announcement.kind) != MessageKind::kShardPart) {
        return pushes_.accept(announcement, bytes);
    }
    const auto header = decode<ShardPartHeader>(announcement.body);
    const std::lock_guard lock(mutex_);
    Part& part = parts_[{header.layout, header.server}];
    part.values.resize(bytes / sizeof(float));
    return std::as_writable_bytes(std::span(part.values));
}

void ServerSink::arrived(const ShardPartHeader& part) {
    const std::lock_guard lock(mutex_);
    parts_.at({part.layout, part.server}).here = true;
}

bool ServerSink::has(std::uint32_t layout, int server) const {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find({layout, server});
    return found != parts_.end() && found->second.here;
}

std::vector<float> ServerSink::take(std::uint32_t layout, int server) {
    const std::lock_guard lock(mutex_);
    return std::move(parts_.extract({layout, server}).mapped().values);
}

void ShardExchange::begin(const ShardLayout& before, const ShardLayout& after, ShardSnapshot mine) {
    check_invariant(!active() && before.ends.size() == after.ends.size(),
                    "one move at a time, among the same servers");
    after_ = after;
    mine_ = std::move(mine);
    awaited_.clear();
    for (const ShardMove& move : moves_between(cuts_of(before), cuts_of(after))) {
        const auto begin = static_cast<std::int64_t>(move.begin);
        const auto end = static_cast<std::int64_t>(move.end);
        if (move.from == server_) {
            send(move.to, begin, end);
        } else if (move.to == server_) {
            awaited_.push_back({.server = move.from, .begin = begin, .end = end});
        }
    }
    if (!awaited_.empty()) {
        wait_ = comm_.operations.begin("parts of other servers", after.number, [this] {
            std::vector<int> ranks;
            for (const Awaited& part : awaited_) {
                if (!sink_.has(after_.number, part.server)) {
                    ranks.push_back(comm_.map.rank_of_server(part.server));
                }
            }
            return ranks;
        });
    }
}

void ShardExchange::send(int to, std::int64_t begin, std::int64_t end) const {
    const auto values = std::make_shared<std::vector<float>>();
    const auto add = [&](const std::vector<float>& from) {
        const auto first = from.begin() + (begin - mine_->begin);
        values->insert(values->end(), first, first + (end - begin));
    };
    add(mine_->parameters);
    for (const auto& [name, slot] : mine_->optimizer_slots) {
        add(slot);
    }
    const auto transfer = comm_.start_transfer(
        {comm_.map.rank_of_server(to), Port::kServer}, Port::kServer, MessageKind::kShardPart,
        ShardPartHeader{.layout = after_.number, .server = server_, .begin = begin, .end = end},
        std::as_bytes(std::span(*values)), ChunkOrder::kForward, values);
    transfer->release(values->size() * sizeof(float));
}

std::optional<ShardSnapshot> ShardExchange::take() {
    const auto is_here = [this](const Awaited& part) {
        return sink_.has(after_.number, part.server);
    };
    if (!active() || !std::ranges::all_of(awaited_, is_here)) {
        return std::nullopt;
    }
    wait_.reset();
    const auto part = static_cast<std::size_t>(server_);
    ShardSnapshot shard = *std::move(mine_);
    mine_.reset();
    const std::int64_t old_begin = shard.begin;
    const std::int64_t begin = part == 0 ? 0 : after_.ends[part - 1];
    const std::int64_t end = after_.ends[part];
    std::vector<std::vector<float>*> arrays{&shard.parameters};
    for (auto& [name, slot] : shard.optimizer_slots) {
        arrays.push_back(&slot);
    }
    const std::int64_t kept_begin = std::max(begin, old_begin);
    const std::int64_t kept_end = std::max(kept_begin, std::min(end, shard.end));
    for (std::vector<float>* array : arrays) {
        std::vector<float> moved(floats_of(begin, end));
        copy_range(array->data(), old_begin, moved.data(), begin, kept_begin, kept_end);
        *array = std::move(moved);
    }
    for (const Awaited& other : awaited_) {
        const std::vector<float> values = sink_.take(after_.number, other.server);
        const std::size_t count = floats_of(other.begin, other.end);
        if (values.size() != count * arrays.size()) {
            fail<PeerError>({.where = "shards",
                             .what = "a part of another size",
                             .expected = std::to_string(count * arrays.size()),
                             .got = std::to_string(values.size()),
                             .hint = "the same program and options on all ranks"});
        }
        for (std::size_t i = 0; i < arrays.size(); ++i) {
            copy_range(values.data() + i * count, other.begin, arrays[i]->data(), begin,
                       other.begin, other.end);
        }
    }
    shard.begin = begin;
    shard.end = end;
    return shard;
}

}  // namespace cohort
