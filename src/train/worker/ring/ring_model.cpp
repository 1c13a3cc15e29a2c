#include "train/worker/ring/ring_model.hpp"

#include <utility>

#include "cohort/core/error.hpp"
#include "optim/vector_math.hpp"

namespace cohort {

RingModel::RingModel(WorkerContext& context)
    : context_(context),
      replica_(context.replica()),
      optimizer_(make_optimizer(context.job().optimizer, replica_.graph().parameters(), 0,
                                replica_.graph().parameters().total(), replica_.device(),
                                replica_.stream())),
      writer_(context.job().hdf5, context.links().operations, [&context](const SavedPart& saved) {
          context.coordinator().tell(MessageKind::kSaved, saved);
      }) {
}

void RingModel::begin(const BeginOrder& order) {
    if (order.checkpoint.empty()) {
        replica_.initialise(context_.job().options.seed);
    } else {
        const auto wait = context_.coordinator().working("restoring from a checkpoint", 0);
        restore_replica(
            replica_, *optimizer_,
            read_checkpoint_range(order.checkpoint, 0,
                                  static_cast<std::int64_t>(replica_.parameters().size()), true,
                                  context_.job().hdf5),
            order.checkpoint);
    }
    version_ = order.version;
    begun_ = true;
}

void RingModel::apply(const RoundOrder& order, const MemberRounds::Sum& sum) {
    const bool here = sum.on_device || replica_.device().kind() == DeviceKind::kCpu;
    std::span<const float> gradient = replica_.gradients();
    if (!sum.floats.empty()) {
        const std::span<float> summed = sum.floats.first(replica_.parameters().size());
        context_.compute().copy(replica_.batch_state(), sum.floats.subspan(summed.size()));
        if (here) {
            gradient = summed;
        } else {
            context_.compute().copy(replica_.gradients(), summed);
        }
    }
    if (order.work == Work::kDelta) {
        add_delta(gradient);
    } else {
        optimizer_->update(replica_.parameters(), gradient, order.fraction, order.lr);
    }
    replica_.fold_batch_statistics(kBatchNormMomentum, order.fraction);
    ++version_;
}

/// The mean change that the members' local steps made; the optimizer's state stays as it is.
void RingModel::add_delta(std::span<const float> delta) {
    if (const StepParts parts = context_.compute().step_parts(); parts.device != nullptr) {
        parts.device->math->add_scaled(replica_.parameters(), delta, 1);
    } else {
        add_scaled(replica_.parameters(), delta, 1);
    }
}

void RingModel::snapshot(const SnapshotOrder& order) {
    if (order.gather != 0) {
        const PackedState packed = pack_state(replica_, *optimizer_, false);
        const GatheredHeader header{.gather = order.gather, .version = version_, .part = 0};
        const std::span<const float> all = packed.all();
        context_.links()
            .messenger
            .start_transfer(CoordinatorLink::address(), Port::kWorker,
                            static_cast<std::uint16_t>(MessageKind::kGathered), encode(header),
                            std::as_bytes(all), ChunkOrder::kForward, packed.values)
            ->release(all.size_bytes());
    }
    if (!order.checkpoint.empty()) {
        const Clock::Seconds start = context_.clock().now();
        ShardSnapshot copied = copy_replica(replica_, *optimizer_, version_);
        const double pause_s = (context_.clock().now() - start).count();
        writer_.write(order.checkpoint, std::move(copied), pause_s);
    }
}

void RingModel::send(StateHeader header, int worker, double lr, double lag) {
    PackedState packed = pack_state(replica_, *optimizer_, header.full);
    if (!header.full) {
        look_ahead_packed(replica_, *optimizer_, packed, lr, lag);
    }
    header.version = version_;
    header.round = last_round_;
    header.giver = context_.worker();
    header.scalars = std::move(packed.scalars);
    const Address to{context_.links().map.rank_of_worker(worker), Port::kWorker};
    const std::span<const float> all = packed.all();
    context_.links()
        .messenger
        .start_transfer(to, Port::kWorker, static_cast<std::uint16_t>(RingMessageKind::kState),
                        encode(header), std::as_bytes(all), ChunkOrder::kForward, packed.values)
        ->release(all.size_bytes());
}

void RingModel::take(const ReceivedState& state) {
    const StateHeader& header = state.header;
    unpack_state(replica_, *optimizer_, state.all(), header.scalars, header.full);
    version_ = header.version;
    if (header.full) {
        last_round_ = header.round;
    }
}

}  // namespace cohort
