#include "train/server/server_staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/protocol/protocol_node.hpp"

namespace cohort {
namespace {

std::string push_text(const PushId& push) {
    if (is_node_sum(push)) {
        return fmt::format("the sum of node {} for version {}", node_of_sum(push), push.sequence);
    }
    return fmt::format("push {} of worker {} (incarnation {})", push.sequence, push.worker,
                       push.incarnation);
}

}  // namespace

PushStaging::PushStaging(Device& device, std::int64_t floats, Wire wire, bool exact, ShardRows rows)
    : device_(device),
      pool_(std::make_unique<BufferPool>(device, floats + rows.words())),
      wire_(wire),
      floats_(floats),
      rows_(rows),
      exact_(exact) {
}

void PushStaging::resize(const ShardRange& range, std::uint32_t layout) {
    const std::lock_guard lock(mutex_);
    for (auto at = pushes_.begin(); at != pushes_.end();) {
        at = discard(at);
    }
    floats_ = range.floats();
    rows_ = rows_.in(range);
    pool_ = std::make_unique<BufferPool>(device_, floats_ + rows_.words());
    layout_ = layout;
}

bool PushStaging::may_fit(std::uint64_t bytes) const noexcept {
    const std::uint64_t all = static_cast<std::uint64_t>(floats_) * wire_bytes(wire_);
    const std::uint64_t bits = static_cast<std::uint64_t>(rows_.words()) * sizeof(std::uint32_t);
    return bytes == all || (bits > 0 && bytes >= bits && bytes < all);
}

/// Where it lies is what accept() gave. bf16 is widened in place, front to back.
bool PushStaging::unpack(float* data, std::uint64_t bytes) const {
    const std::uint64_t all = static_cast<std::uint64_t>(floats_) * wire_bytes(wire_);
    std::int64_t kept = floats_;
    if (bytes < all) {
        std::vector<std::uint32_t> bits(static_cast<std::size_t>(rows_.words()));
        std::memcpy(bits.data(), data + floats_, bits.size() * sizeof(std::uint32_t));
        kept = rows_.kept(bits);
        if (bytes != static_cast<std::uint64_t>(kept) * wire_bytes(wire_) +
                         bits.size() * sizeof(std::uint32_t)) {
            return false;
        }
    }
    if (wire_ == Wire::kBf16) {
        widen_bf16_in_place({data + floats_ - kept, static_cast<std::size_t>(kept)});
    }
    if (kept < floats_) {
        rows_.expand({data, static_cast<std::size_t>(floats_ + rows_.words())});
    }
    return true;
}

std::uint64_t PushStaging::bytes_most() const {
    const std::lock_guard lock(mutex_);
    return pool_->bytes_most();
}

PushStaging::~PushStaging() {
    for (auto& [push, entry] : pushes_) {
        if (entry.data != nullptr && !entry.here) {
            keep_for_good(std::move(entry.data));
        }
    }
}

std::span<std::byte> PushStaging::accept(const Message& announcement, std::uint64_t bytes) {
    const auto header = decode<PushHeader>(announcement.body);
    const std::lock_guard lock(mutex_);
    Entry& entry = pushes_[header.push];
    entry.repeated = entry.bytes != 0;
    entry.discarded = entry.discarded || header.layout != layout_;
    entry.bytes = bytes;
    entry.from = announcement.from.rank;
    if (entry.discarded || entry.repeated || !may_fit(bytes)) {
        return {};
    }
    entry.data = pool_->take();
    entry.receiving = busy_.until_released(nullptr);
    // At the end of the floats, and the bits of rows behind them.
    const bool all = bytes == static_cast<std::uint64_t>(floats_) * wire_bytes(wire_);
    const std::int64_t end = floats_ + (all ? 0 : rows_.words());
    return std::as_writable_bytes(std::span(entry.data.get(), static_cast<std::size_t>(end)))
        .last(bytes);
}

bool PushStaging::arrived(PushId push) {
    std::unique_lock lock(mutex_);
    const auto at = pushes_.find(push);
    check_invariant(at != pushes_.end(), "a push arrives after its announcement");
    Entry& entry = at->second;
    if (!entry.repeated) {
        entry.receiving.reset();
    }
    if (entry.discarded && !entry.repeated) {
        pushes_.erase(at);
        return false;
    }
    bool fits = may_fit(entry.bytes);
    if (fits && entry.repeated) {
        fail<PeerError>({.where = push_text(push), .what = "it came twice"});
    }
    if (fits) {
        lock.unlock();  // only the role's thread, which calls this, lets go of the memory
        fits = unpack(entry.data.get(), entry.bytes);
        lock.lock();
    }
    if (!fits) {
        fail<PeerError>({.where = push_text(push),
                         .what = "it does not fit the shard",
                         .expected = fmt::format(
                             "{} bytes{}", static_cast<std::uint64_t>(floats_) * wire_bytes(wire_),
                             rows_.words() > 0 ? ", or rows with their bits" : ""),
                         .got = std::to_string(entry.bytes),
                         .hint = "the same options on all ranks"});
    }
    entry.here = true;
    return true;
}

void PushStaging::discard(PushId push) {
    const std::lock_guard lock(mutex_);
    discard(pushes_.try_emplace(push).first);
}

/// A push that has not been received completely is forgotten when it is. @return the next one
PushStaging::Pushes::iterator PushStaging::discard(Pushes::iterator at) {
    if (at->second.here) {
        return pushes_.erase(at);
    }
    at->second.discarded = true;
    return std::next(at);
}

void PushStaging::discard_sums(std::int64_t version) {
    const std::lock_guard lock(mutex_);
    for (auto at = pushes_.begin(); at != pushes_.end() && is_node_sum(at->first);) {
        at = static_cast<std::int64_t>(at->first.sequence) <= version ? discard(at) : std::next(at);
    }
}

std::vector<int> PushStaging::coming() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (const auto& [push, entry] : pushes_) {
        if (entry.data != nullptr && !entry.here) {
            ranks.push_back(entry.from);
        }
    }
    return ranks;
}

PushStaging::Pushes::const_iterator PushStaging::find_here(const PushId& push) const {
    if (exact_ || !is_node_sum(push)) {
        const auto at = pushes_.find(push);
        return at != pushes_.end() && at->second.here ? at : pushes_.end();
    }
    const auto workers = pushes_.lower_bound({0, 0, 0});  // sums of nodes are before them
    const auto at = std::find_if(pushes_.begin(), workers, [&](const auto& one) {
        return same_push(one.first, push) && one.second.here;
    });
    return at == workers ? pushes_.end() : at;
}

bool PushStaging::is_here(const PushId& push) const {
    const std::lock_guard lock(mutex_);
    return find_here(push) != pushes_.end();
}

std::shared_ptr<const float> PushStaging::peek(const PushId& push) const {
    const std::lock_guard lock(mutex_);
    const auto at = find_here(push);
    return at == pushes_.end() ? nullptr : at->second.data;
}

void PushStaging::forget(PushId push) {
    const std::lock_guard lock(mutex_);
    pushes_.erase(push);
}

std::shared_ptr<const float> PushStaging::take(PushId push) {
    const std::lock_guard lock(mutex_);
    const auto at = find_here(push);
    if (at == pushes_.end()) {
        fail<PeerError>({.where = push_text(push),
                         .what = "an update needs it and it has not been received",
                         .hint = "this is a fault of the program"});
    }
    std::shared_ptr<const float> data = at->second.data;
    pushes_.erase(at);
    return data;
}

std::optional<OrderLine::Order> OrderLine::take(std::int64_t version) {
    if (line_.empty()) {
        return std::nullopt;
    }
    std::vector<PushId> wanted = lacking();
    if (wanted.empty()) {
        lacks_.reset();
        Order order = std::move(line_.front());
        line_.pop_front();
        return order;
    }
    if (!lacks_) {
        lacks_ = comm_.operations.begin(
            "gradients of an update", static_cast<std::uint64_t>(version + 1),
            [this, wanted = std::move(wanted)] { return ranks_of(not_here(wanted)); });
    }
    return std::nullopt;
}

/// Pushes that the first order in line needs and that have not been received.
std::vector<PushId> OrderLine::lacking() const {
    std::vector<PushId> wanted;
    if (const auto* update = std::get_if<Update>(&line_.front())) {
        for (const UpdateTerm& one : update->order.update.terms) {
            wanted.push_back(one.push);
        }
    } else if (const auto* reference = std::get_if<ReferenceOrder>(&line_.front())) {
        wanted.push_back(reference->push);
    }
    return not_here(std::move(wanted));
}

std::vector<PushId> OrderLine::not_here(std::vector<PushId> pushes) const {
    std::erase_if(pushes, [this](const PushId& one) { return staging_.is_here(one); });
    return pushes;
}

/// World ranks that they come from, without those that are lost.
std::vector<int> OrderLine::ranks_of(const std::vector<PushId>& pushes) const {
    const auto can_send = [this](int rank) {
        return rank >= comm_.map.servers &&
               (comm_.membership == nullptr || !comm_.membership->excluded(rank));
    };
    std::vector<int> ranks;
    for (const PushId& push : pushes) {
        const std::vector<int> from = is_node_sum(push)
                                          ? comm_.map.on_node(node_of_sum(push))
                                          : std::vector{comm_.map.rank_of_worker(push.worker)};
        const auto rank = std::ranges::find_if(from, can_send);
        if (rank != from.end()) {
            ranks.push_back(*rank);
        }
    }
    return ranks;
}

void OrderLine::discard(const PushId& push) {
    for (Order& order : line_) {
        if (auto* update = std::get_if<Update>(&order)) {
            std::vector<UpdateTerm>& pushes = update->order.update.terms;
            const auto gone = std::erase_if(
                pushes, [&](const UpdateTerm& one) { return same_push(one.push, push); });
            update->void_of_pushes |= gone > 0 && pushes.empty();
        }
    }
}

}  // namespace cohort
