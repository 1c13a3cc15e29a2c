#include "train/worker/servers/push_buffers.hpp"

#include <utility>

namespace cohort {

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
