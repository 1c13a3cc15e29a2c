#include "train/worker/servers/worker_push.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using Transfers = std::vector<std::shared_ptr<OutgoingTransfer>>;

bool all_done(const Transfers& transfers) {
    return std::all_of(transfers.begin(), transfers.end(),
                       [](const auto& transfer) { return transfer->done(); });
}

}  // namespace

SendBuffers::SendBuffers(const ShardedLayout& layout, Device& device) {
    constexpr int kBuffers = 2;
    const auto bytes = static_cast<std::size_t>(layout.floats()) * sizeof(float);
    for (int i = 0; i < kBuffers; ++i) {
        slots_.push_back({std::make_shared<Buffer>(device.allocate_host(bytes)), {}, 0});
    }
}

std::shared_ptr<Buffer> SendBuffers::free() {
    for (const Slot& slot : slots_) {
        if (all_done(slot.transfers)) {
            return slot.buffer;
        }
    }
    return nullptr;
}

void SendBuffers::in_use(const std::shared_ptr<Buffer>& buffer, Transfers transfers) {
    for (Slot& slot : slots_) {
        if (slot.buffer == buffer) {
            slot.transfers.swap(transfers);
            slot.use = ++uses_;
        }
    }
}

const Transfers& SendBuffers::oldest() const noexcept {
    return std::min_element(slots_.begin(), slots_.end(),
                            [](const Slot& a, const Slot& b) { return a.use < b.use; })
        ->transfers;
}

std::vector<int> SendBuffers::missing(const Transfers& transfers) {
    std::vector<int> servers;
    for (std::size_t server = 0; server < transfers.size(); ++server) {
        if (!transfers[server]->done()) {
            servers.push_back(static_cast<int>(server));
        }
    }
    return servers;
}

PushObserver::PushObserver(const StepParts& parts, const Links& links, const ShardedLayout& layout,
                           std::shared_ptr<Buffer> buffer, PushHeader header,
                           std::function<bool()> give_up)
    : GradientObserver(parts, std::move(give_up)),
      links_(links),
      layout_(layout),
      buffer_(std::move(buffer)),
      header_(header) {
}

void PushObserver::put_statistics(std::span<const float> batch_state) {
    layout_.put_state(buffer_->floats(), batch_state);
    for (const ShardRange& shard : layout_.shards()) {
        transfers_.push_back(links_.messenger.start_transfer(
            {links_.map.rank_of_server(shard.part), Port::kServer}, Port::kWorker,
            static_cast<std::uint16_t>(MessageKind::kPush), encode(header_),
            std::as_bytes(layout_.part(buffer_->floats(), shard)), ChunkOrder::kBackward, buffer_));
    }
}

void PushObserver::put(std::int64_t begin, std::span<const float> gradient) {
    layout_.put(buffer_->floats(), begin, gradient);
}

void PushObserver::final_from(std::int64_t low) {
    for (const ShardRange& shard : layout_.shards()) {
        if (low < shard.end) {
            const std::int64_t floats = shard.end - std::max(low, shard.begin) + shard.state;
            transfers_[static_cast<std::size_t>(shard.part)]->release(
                static_cast<std::uint64_t>(floats) * sizeof(float));
        }
    }
}

void SlotObserver::put(std::int64_t begin, std::span<const float> gradient) {
    layout_.put(slot_.data(), begin, gradient);
}

void SlotObserver::put_statistics(std::span<const float> batch_state) {
    layout_.put_state(slot_.data(), batch_state);
}

}  // namespace cohort
