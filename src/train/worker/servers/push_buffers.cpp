#include "train/worker/servers/push_buffers.hpp"

#include <algorithm>
#include <utility>

#include "core/bf16.hpp"

namespace cohort {
namespace {

bool all_done(const Transfers& transfers) {
    return std::ranges::all_of(transfers, [](const auto& transfer) { return transfer->done(); });
}

}  // namespace

PushWriter PushWriter::into(Wire wire, const ShardedLayout& layout, const Buffer& buffer,
                            ErrorFeedback::Push* rest) {
    if (wire == Wire::kF32) {
        return PushWriter(layout.all(buffer));
    }
    return {static_cast<std::uint16_t*>(buffer.data()), static_cast<std::size_t>(layout.floats()),
            rest};
}

void PushWriter::put(std::int64_t begin, std::span<const float> values) const {
    if (form_ == nullptr) {
        put_at(begin, begin, values);
        return;
    }
    const std::int64_t end = begin + static_cast<std::int64_t>(values.size());
    if (rest_ != nullptr) {  // what is kept for floats that this push does not have stays
        std::copy(rest_->before.begin() + begin, rest_->before.begin() + end,
                  rest_->after.begin() + begin);
    }
    for (const PushForm::Run& run : form_->runs(begin, end)) {
        put_at(run.to, run.begin,
               values.subspan(static_cast<std::size_t>(run.begin - begin),
                              static_cast<std::size_t>(run.end - run.begin)));
    }
}

/// @param to  number of the first value in the memory
void PushWriter::put_at(std::int64_t to, std::int64_t begin, std::span<const float> values) const {
    if (floats_ != nullptr) {
        std::ranges::copy(values, floats_ + to);
    } else if (rest_ != nullptr) {
        narrow_with_rest(values, rest_->before.data() + begin, rest_->after.data() + begin,
                         shorts_ + to);
    } else {
        narrow_to_bf16(values, shorts_ + to);
    }
}

SendBuffers::SendBuffers(const ShardedLayout& layout, Device& device, int buffers, Wire wire)
    : device_(device), bytes_(static_cast<std::size_t>(layout.floats()) * wire_bytes(wire)) {
    for (int i = 0; i < buffers; ++i) {
        slots_.push_back({std::make_shared<Buffer>(device_.allocate_host(bytes_)), {}, 0});
    }
}

std::shared_ptr<Buffer> SendBuffers::free() const {
    const auto slot = std::ranges::find_if(slots_, all_done, &Slot::transfers);
    return slot == slots_.end() ? nullptr : slot->buffer;
}

std::shared_ptr<Buffer> SendBuffers::free_or_new() {
    if (std::shared_ptr<Buffer> buffer = free()) {
        return buffer;
    }
    slots_.push_back({std::make_shared<Buffer>(device_.allocate_host(bytes_)), {}, 0});
    return slots_.back().buffer;
}

void SendBuffers::in_use(const std::shared_ptr<Buffer>& buffer, Transfers transfers) {
    Slot& slot = *std::ranges::find(slots_, buffer, &Slot::buffer);
    slot.transfers = std::move(transfers);
    slot.use = ++uses_;
}

const Transfers& SendBuffers::oldest() const noexcept {
    return std::ranges::min_element(slots_, {}, &Slot::use)->transfers;
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

PushRoute PushRoute::to_servers(const CommContext& comm, const ShardedLayout& layout, Wire wire) {
    PushRoute route{comm, layout, {}, wire};
    for (const ShardRange& shard : layout.shards()) {
        route.owners.push_back({comm.map.rank_of_server(shard.part), Port::kServer});
    }
    return route;
}

Transfers PushRoute::start(const PushId& push, const std::shared_ptr<Buffer>& buffer,
                           const PushForm& form) const {
    Transfers transfers;
    auto* const bytes = static_cast<std::byte*>(buffer->data());
    form.put_bits(bytes);
    for (std::size_t shard = 0; shard < owners.size(); ++shard) {
        const ShardRange& range = layout.shards()[shard];
        const std::span<const std::byte> part(
            bytes + range.begin * static_cast<std::int64_t>(wire_bytes(wire)), form.bytes(shard));
        transfers.push_back(comm.start_transfer(owners[shard], Port::kWorker, MessageKind::kPush,
                                                PushHeader{push, layout.number()}, part,
                                                ChunkOrder::kBackward, buffer));
    }
    return transfers;
}

void PushRoute::release(const Transfers& transfers, const PushForm& form) {
    for (std::size_t shard = 0; shard < transfers.size(); ++shard) {
        transfers[shard]->release(form.bytes(shard));
    }
}

void PushObserver::put_statistics(std::span<const float> batch_state) {
    LayoutObserver::put_statistics(batch_state);
    transfers_ = route_.start(push_, buffer_, form_);
}

void PushObserver::final_from(std::int64_t low) {
    for (const ShardRange& shard : route_.layout.shards()) {
        if (low < shard.end) {
            const auto part = static_cast<std::size_t>(shard.part);
            transfers_[part]->release(form_.bytes_from(part, low));
        }
    }
}

PushBuffers::PushBuffers(WorkerContext& context, const ShardedLayout& layout)
    : context_(context),
      route_(PushRoute::to_servers(context.comm(), layout, context.job().options.wire)),
      table_(find_row_table(context.replica().graph())) {
    renew();
    const CommContext& comm = context.comm();
    const TrainOptions& options = context.job().options;
    const auto rank = static_cast<std::size_t>(comm.messenger.rank());
    const auto node = static_cast<std::size_t>(comm.map.ranks[rank].node);
    if (slot_nodes(comm.map, options)[node]) {
        slots_.emplace(layout.floats());
        agent_.emplace(comm, layout, context.worker(), slots_->descriptor(),
                       tree_pieces(options, layout.floats()), route_.wire);
    }
}

std::optional<PushBuffer> PushBuffers::find_free(const LeaseOrder& lease, std::int64_t version) {
    if (slots_ && lease.staged) {
        if (const std::optional<int> slot = slots_->find_free(version)) {
            return PushBuffer{
                .buffer = nullptr, .slot = *slot, .to = PushWriter(slots_->values(*slot))};
        }
    }
    std::shared_ptr<Buffer> buffer = buffers_->free();
    if (!buffer) {
        return std::nullopt;
    }
    const PushWriter to = PushWriter::into(route_.wire, route_.layout, *buffer, nullptr);
    return PushBuffer{.buffer = std::move(buffer), .slot = -1, .to = to};
}

/// A push on a validation lease becomes no part of an update.
void PushBuffers::use(PushBuffer& place, const PushId& push, const LeaseOrder& lease) {
    if (place.slot >= 0) {
        slots_->use(place.slot, push);
    } else if (feedback_ && !lease.validation) {
        place.to = PushWriter::into(route_.wire, route_.layout, *place.buffer,
                                    &feedback_->begin(push.sequence, lease.work.work));
    }
}

void PushBuffers::give_back(const PushBuffer& place, const PushId& push) {
    if (place.slot >= 0) {
        slots_->give_back(place.slot);
    } else if (feedback_) {
        feedback_->decide(push.sequence, false);
    }
}

void PushBuffers::decided(const PushOutcomes& outcomes) {
    if (feedback_) {
        feedback_->decide(outcomes);
    }
}

void PushBuffers::leaves(const PushBuffer& place, Transfers transfers) {
    buffers_->in_use(place.buffer, std::move(transfers));
}

PushForm PushBuffers::form_of(const BatchView& batch) const {
    if (!table_) {
        return route_.whole();
    }
    const auto tokens =
        static_cast<std::size_t>(batch.size * context_.replica().graph().input_shape().elements());
    return {route_.layout.shards(), route_.wire, *table_, {batch.tokens, tokens}};
}

void PushBuffers::renew() {
    buffers_.emplace(route_.layout, context_.replica().device(), 2, route_.wire);
    if (route_.wire == Wire::kBf16) {
        feedback_.emplace(route_.layout.floats());
    }
}

void PushBuffers::check() const {
    if (agent_) {
        agent_->check();
    }
}

void PushBuffers::put(const PushBuffer& place, const PushId& push, std::span<const float> values) {
    place.to.put(0, values);
    if (place.buffer) {
        const PushForm form = route_.whole();
        Transfers transfers = route_.start(push, place.buffer, form);
        PushRoute::release(transfers, form);
        leaves(place, std::move(transfers));
    }
}

}  // namespace cohort
