#include "train/worker/servers/push_buffers.hpp"

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

PushBuffers::PushBuffers(WorkerContext& context, const ShardedLayout& layout)
    : context_(context), layout_(layout) {
    renew();
    const Links& links = context.links();
    const TrainOptions& options = context.job().options;
    const auto rank = static_cast<std::size_t>(links.messenger.rank());
    const auto node = static_cast<std::size_t>(links.map.ranks[rank].node);
    if (staging_nodes(links.map, options.node_staging, options.deterministic)[node]) {
        slots_.emplace(layout.floats());
        agent_.emplace(links, layout, context.worker(), slots_->descriptor());
    }
}

std::optional<PushBuffer> PushBuffers::find_free(const LeaseOrder& lease, std::int64_t version) {
    if (slots_ && lease.staged) {
        if (const std::optional<int> slot = slots_->find_free(version)) {
            return PushBuffer{.buffer = nullptr, .slot = *slot, .floats = slots_->values(*slot)};
        }
    }
    std::shared_ptr<Buffer> buffer = buffers_->free();
    if (!buffer) {
        return std::nullopt;
    }
    const std::span<float> floats(buffer->floats(), static_cast<std::size_t>(layout_.floats()));
    return PushBuffer{.buffer = std::move(buffer), .slot = -1, .floats = floats};
}

void PushBuffers::use(const PushBuffer& place, const PushId& push) {
    if (place.slot >= 0) {
        slots_->use(place.slot, push);
    }
}

void PushBuffers::give_back(const PushBuffer& place) {
    if (place.slot >= 0) {
        slots_->give_back(place.slot);
    }
}

void PushBuffers::leaves(const PushBuffer& place, Transfers transfers) {
    buffers_->in_use(place.buffer, std::move(transfers));
}

void PushBuffers::renew() {
    buffers_.emplace(layout_, context_.replica().device());
}

void PushBuffers::check() const {
    if (agent_) {
        agent_->check();
    }
}

void PushBuffers::put(const PushBuffer& place, const PushId& push, std::span<const float> values) {
    const auto parameters = static_cast<std::size_t>(layout_.floats() - layout_.state());
    layout_.put(place.floats.data(), 0, values.first(parameters));
    layout_.put_state(place.floats.data(), values.subspan(parameters));
    if (!place.buffer) {
        return;
    }
    const Links& links = context_.links();
    Transfers transfers;
    for (const ShardRange& shard : layout_.shards()) {
        const std::span<const float> part = layout_.part(place.floats.data(), shard);
        transfers.push_back(links.messenger.start_transfer(
            {links.map.rank_of_server(shard.part), Port::kServer}, Port::kWorker,
            static_cast<std::uint16_t>(MessageKind::kPush), encode(PushHeader{push}),
            std::as_bytes(part), ChunkOrder::kBackward, place.buffer));
        transfers.back()->release(part.size_bytes());
    }
    leaves(place, std::move(transfers));
}

}  // namespace cohort
