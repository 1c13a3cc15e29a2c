#include "train/worker/ring/ring_model.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "core/profiler_range.hpp"
#include "layers/optim/look_ahead.hpp"
#include "layers/optim/vector_math.hpp"
#include "sched/plan/ring_rules.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {
namespace {

std::vector<float> host_copy(Stream& stream, std::span<const float> from) {
    std::vector<float> to(from.size());
    stream.copy(to.data(), from.data(), from.size_bytes());
    return to;
}

void restore_buffer(Stream& stream, const std::string& where, std::string_view name,
                    std::span<float> to, std::span<const float> from) {
    if (to.size() != from.size()) {
        fail<FileError>({.where = where,
                         .what = fmt::format("{} in it does not fit this run", name),
                         .expected = fmt::format("{} floats", to.size()),
                         .got = fmt::format("{} floats", from.size())});
    }
    stream.copy(to.data(), from.data(), from.size_bytes());
}

/// The saved values of `name`; empty when there are none.
std::span<const float> saved_slot(const ShardSnapshot& snapshot, const std::string& name) {
    for (const auto& [saved, values] : snapshot.optimizer_slots) {
        if (saved == name) {
            return values;
        }
    }
    return {};
}

/// Everything that a replica and its optimizer hold, copied to host memory.
ShardSnapshot copy_replica(TrainableModel& replica, Optimizer& optimizer, std::int64_t version) {
    Stream& stream = replica.stream();
    ShardSnapshot snapshot;
    snapshot.end = replica.graph().parameters().total();
    snapshot.version = version;
    snapshot.parameters = host_copy(stream, replica.parameters());
    snapshot.state = host_copy(stream, replica.state());
    for (const OptimizerSlot& slot : optimizer.slots()) {
        snapshot.optimizer_slots.emplace_back(slot.name, host_copy(stream, slot.values));
    }
    for (const OptimizerScalar& scalar : optimizer.scalars()) {
        snapshot.optimizer_scalars.emplace_back(scalar.name, scalar.value);
    }
    stream.synchronize();
    return snapshot;
}

/// The other way round. Errors: FileError when the snapshot does not fit, naming `where`.
void restore_replica(TrainableModel& replica, Optimizer& optimizer, const ShardSnapshot& snapshot,
                     const std::string& where) {
    Stream& stream = replica.stream();
    restore_buffer(stream, where, "parameters", replica.parameters(), snapshot.parameters);
    restore_buffer(stream, where, "state", replica.state(), snapshot.state);
    for (const OptimizerSlot& slot : optimizer.slots()) {
        restore_buffer(stream, where, slot.name, slot.values, saved_slot(snapshot, slot.name));
    }
    stream.synchronize();
    optimizer.restore_scalars(snapshot.optimizer_scalars);
}

constexpr std::size_t kFirstSlot = 2;  // in packed_parts()

/// What a packed state is made of, in its order.
std::vector<std::span<float>> packed_parts(TrainableModel& replica, Optimizer& optimizer,
                                           bool full) {
    std::vector<std::span<float>> parts{replica.parameters(), replica.state()};
    if (full) {
        for (const OptimizerSlot& slot : optimizer.slots()) {
            parts.push_back(slot.values);
        }
    }
    return parts;
}

std::size_t floats_in(const std::vector<std::span<float>>& parts) {
    std::size_t floats = 0;
    for (const std::span<float> part : parts) {
        floats += part.size();
    }
    return floats;
}

/// The same as one buffer of floats, for another rank: parameters, state and, if `full`, the
/// optimizer's slots in their order.
struct PackedState {
    std::shared_ptr<float[]> values;
    std::size_t floats = 0;
    std::vector<double> scalars;  ///< of the optimizer in their order, if `full`
    [[nodiscard]] std::span<float> all() const noexcept { return {values.get(), floats}; }
};

PackedState pack_state(TrainableModel& replica, Optimizer& optimizer, bool full) {
    const auto parts = packed_parts(replica, optimizer, full);
    PackedState packed{.values = nullptr, .floats = floats_in(parts), .scalars = {}};
    packed.values = std::make_shared_for_overwrite<float[]>(packed.floats);
    std::size_t at = 0;
    for (const std::span<float> part : parts) {
        replica.stream().copy(packed.values.get() + at, part.data(), part.size_bytes());
        at += part.size();
    }
    replica.stream().synchronize();
    if (full) {
        for (const OptimizerScalar& scalar : optimizer.scalars()) {
            packed.scalars.push_back(scalar.value);
        }
    }
    return packed;
}

enum class Unpack : std::uint8_t { kAll, kOptimizer };

/// Errors: PeerError when the floats do not fit.
void unpack_state(TrainableModel& replica, Optimizer& optimizer, std::span<const float> floats,
                  const std::vector<double>& scalars, bool full, Unpack what = Unpack::kAll) {
    const auto parts = packed_parts(replica, optimizer, full);
    const std::vector<OptimizerScalar> names = optimizer.scalars();
    if (floats.size() != floats_in(parts) || scalars.size() != (full ? names.size() : 0)) {
        fail<PeerError>({.where = "state",
                         .what = "it does not fit this run",
                         .expected = fmt::format("{} floats", floats_in(parts)),
                         .got = fmt::format("{} floats", floats.size()),
                         .hint = "the same program and options on all ranks"});
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (what == Unpack::kAll || i >= kFirstSlot) {
            replica.stream().copy(parts[i].data(), floats.data() + at, parts[i].size_bytes());
        }
        at += parts[i].size();
    }
    replica.stream().synchronize();
    for (std::size_t i = 0; i < scalars.size(); ++i) {
        optimizer.set_scalar(names[i].name, scalars[i]);
    }
}

/// Turns packed parameters into those of after `lag` more reference batches.
void look_ahead_packed(TrainableModel& replica, Optimizer& optimizer, const PackedState& packed,
                       double lr, double lag) {
    LookAhead state = optimizer.look_ahead();
    if (lag == 0 || state.first.empty()) {
        return;
    }
    const std::vector<float> first = host_copy(replica.stream(), state.first);
    const std::vector<float> second = host_copy(replica.stream(), state.second);
    replica.stream().synchronize();
    state.first = first;
    state.second = second;
    const std::span<float> theta = packed.all().first(first.size());
    look_ahead(theta, state, lr, lag, theta);
}

/// All of it leaves at once, as `form` says.
template <class Kind, class Header>
void send_state(const CommContext& comm, Address to, Kind kind, const Header& header,
                const PackedState& packed, PulledBytes form) {
    std::span<const std::byte> all = std::as_bytes(packed.all());
    std::shared_ptr<const void> owner = packed.values;
    if (form.wire == Wire::kBf16) {
        const auto parameters = static_cast<std::size_t>(form.parameters);
        const std::span<const float> state = packed.all().subspan(parameters);
        const auto rounded =
            std::make_shared_for_overwrite<std::uint16_t[]>(parameters + 2 * state.size());
        narrow_to_bf16(packed.all().first(parameters), rounded.get());
        std::memcpy(rounded.get() + parameters, state.data(), state.size_bytes());
        all = {reinterpret_cast<const std::byte*>(rounded.get()),
               static_cast<std::size_t>(form.of(static_cast<std::int64_t>(packed.floats)))};
        owner = rounded;
    }
    comm.start_transfer(to, Port::kWorker, kind, header, all, ChunkOrder::kForward, owner)
        ->release(all.size());
}

}  // namespace

RingModel::RingModel(WorkerContext& context)
    : context_(context),
      replica_(context.replica()),
      optimizer_(make_optimizer(context.job().optimizer, replica_.graph().parameters(), 0,
                                replica_.graph().parameters().total(), replica_.device(),
                                replica_.stream())),
      writer_(
          context.job().hdf5, context.comm().operations,
          [&context](const SavedPart& saved) {
              context.coordinator().tell(MessageKind::kSaved, saved);
          },
          mirror_sender(context.comm())) {
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
    version_ = optimizer_version_ = order.version;
    begun_ = true;
}

void RingModel::clip(const MemberRounds::Sum& sum) {
    const double most = context_.job().options.clip_norm;
    if (most > 0) {
        const bool alone = sum.floats.empty();
        const std::span<float> gradient =
            alone ? replica_.gradients() : sum.floats.first(replica_.parameters().size());
        context_.compute().clip(gradient, most, alone || sum.on_device);
    }
}

void RingModel::apply(const RoundOrder& order, const MemberRounds::Sum& sum) {
    const ProfilerRange range("update");
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
    optimizer_version_ = ++version_;
}

/// The mean change that the members' local steps made; the optimizer's state stays as it is.
void RingModel::add_delta(std::span<const float> delta) {
    if (const StepContext parts = context_.compute().step_context(); parts.device != nullptr) {
        parts.device->math->add_scaled(replica_.parameters(), delta, 1);
    } else {
        add_scaled(replica_.parameters(), delta, 1);
    }
}

void RingModel::snapshot(const SnapshotOrder& order) {
    if (order.gather != 0) {
        const PackedState packed = pack_state(replica_, *optimizer_, false);
        const GatheredHeader header{.gather = order.gather, .version = version_, .part = 0};
        send_state(context_.comm(), CoordinatorLink::address(), MessageKind::kGathered, header,
                   packed, {});
    }
    if (!order.checkpoint.empty()) {
        const Clock::Seconds start = context_.clock().now();
        ShardSnapshot copied = copy_replica(replica_, *optimizer_, version_);
        const double pause_s = (context_.clock().now() - start).count();
        writer_.write(order.checkpoint, std::move(copied), pause_s);
    }
}

void RingModel::add_report(RoundReport report) {
    if (reports_.size() == kGrantedRounds) {
        reports_.erase(reports_.begin());
    }
    reports_.push_back(std::move(report));
}

void RingModel::send(StateHeader header, int worker, double lr, double lag) {
    PackedState packed = pack_state(replica_, *optimizer_, header.full);
    if (!header.full) {
        look_ahead_packed(replica_, *optimizer_, packed, lr, lag);
    }
    header.version = version_;
    header.round = parameters_round_;
    header.giver = context_.worker();
    header.scalars = std::move(packed.scalars);
    if (!reports_.empty() && reports_.back().round == header.round) {
        header.reports = reports_;
    }
    const CommContext& comm = context_.comm();
    send_state(comm, {comm.map.rank_of_worker(worker), Port::kWorker}, RingMessageKind::kState,
               header, packed, header.full ? PulledBytes() : pulled());
}

PulledBytes RingModel::pulled() const {
    return {.wire = context_.job().options.wire,
            .parameters = static_cast<std::int64_t>(replica_.parameters().size())};
}

void RingModel::take(const ReceivedState& state) {
    const StateHeader& header = state.header;
    unpack_state(replica_, *optimizer_, state.all(), header.scalars, header.full);
    outdated_ = false;
    version_ = header.version;
    parameters_round_ = header.round;
    reports_ = header.full ? std::vector<RoundReport>() : header.reports;
    if (header.full) {
        last_round_ = header.round;
        optimizer_version_ = header.version;
    }
}

void RingModel::succeed(const RoleOrder& order, const ReceivedState* state) {
    if (state != nullptr) {
        unpack_state(replica_, *optimizer_, state->all(), state->header.scalars, true,
                     Unpack::kOptimizer);
    }
    version_ = optimizer_version_ = order.version;
    round_over(order.round);
    reports_.clear();
}

}  // namespace cohort
