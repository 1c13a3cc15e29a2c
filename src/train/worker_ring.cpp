#include "worker_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "cohort/core/error.hpp"
#include "protocol_ring.hpp"
#include "server_checkpoints.hpp"
#include "train_parts.hpp"
#include "worker_ring_observer.hpp"
#include "worker_snapshots.hpp"

namespace cohort {
namespace {

/// Share of a reference batch's statistics that goes into the running ones.
constexpr double kBatchNormMomentum = 0.1;

/// The worker's part in a ring:
///  1. kBegin: parameters, state and optimizer from the seed or a checkpoint, on every member
///  2. a grant comes (one round ahead): the batch of its lease, or nothing
///  3. the weighted gradient goes into the ring while backward runs, the tail ends it
///  4. all tails finite: every member applies the same update; else the round is void
///  5. worker 0 reports the tails; snapshot and evaluation as the grant says; then 2 again
class RingExecutor final : public WorkerExecutor {
public:
    RingExecutor(WorkerContext& context, RoundExchangeFactory rounds);

    void order(const Message& message) override;
    void run() override;
    [[nodiscard]] std::int64_t version() const noexcept override { return version_; }

private:
    struct Sum {
        std::vector<RingTail> tails;  ///< by member
        std::span<float> floats;      ///< gradient and statistics; empty: they are the replica's
    };

    void begin(const BeginOrder& order);
    void carry_out(const RoundOrder& order);
    void round(const RoundOrder& order);
    void prepare(const RoundOrder& order);
    [[nodiscard]] Sum compute(const RoundOrder& order, const RoundMember& mine);
    [[nodiscard]] LoadedBatch batch_of(const RoundMember& mine);
    [[nodiscard]] RingTail train(const LoadedBatch& batch, GradientObserver& observer);
    void apply(const RoundOrder& order, std::span<float> sum);
    void report(const RoundOrder& order, const std::vector<RingTail>& tails);
    void snapshot(const SnapshotOrder& order);
    void evaluate(const RoundOrder& order);
    [[nodiscard]] std::int64_t parameters() const {
        return static_cast<std::int64_t>(replica_.parameters().size());
    }

    WorkerContext& context_;
    Replica& replica_;
    RoundExchangeFactory make_exchange_;
    std::unique_ptr<Optimizer> optimizer_;
    std::vector<int> members_;  ///< world ranks of exchange_
    std::unique_ptr<RoundExchange> exchange_;
    std::deque<RoundOrder> granted_;
    bool begun_ = false;
    std::int64_t version_ = 0;
    std::uint64_t rounds_ = 0;  ///< grants carried out
    ShardWriter writer_;        ///< last: writes what is left before the rest goes
};

RingExecutor::RingExecutor(WorkerContext& context, RoundExchangeFactory rounds)
    : context_(context),
      replica_(context.replica()),
      make_exchange_(std::move(rounds)),
      optimizer_(make_optimizer(context.job().optimizer, replica_.graph().parameters(), 0,
                                replica_.graph().parameters().total(), replica_.device(),
                                replica_.stream())),
      writer_(context.job().hdf5, context.links().operations, [&context](const SavedPart& saved) {
          context.tell_coordinator(MessageKind::kSaved, saved);
      }) {
}

void RingExecutor::order(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kBegin: begin(decode<BeginOrder>(message.body)); break;
        case MessageKind::kRound: granted_.push_back(decode<RoundOrder>(message.body)); break;
        default: refuse_order(message);
    }
}

void RingExecutor::begin(const BeginOrder& order) {
    if (order.checkpoint.empty()) {
        replica_.initialise(context_.job().options.seed);
    } else {
        const auto wait = context_.working("restoring from a checkpoint", 0);
        restore_replica(
            replica_, *optimizer_,
            read_checkpoint_range(order.checkpoint, 0, parameters(), true, context_.job().hdf5),
            order.checkpoint);
    }
    version_ = order.version;
    begun_ = true;
}

/// Grants that came before kStop are carried out: the others may be in those rounds already.
void RingExecutor::run() {
    for (;;) {
        context_.await(
            "round grant", rounds_ + 1, [this] { return !granted_.empty(); },
            WorkerContext::from_coordinator(), WaitLimit::kNone);
        if (granted_.empty()) {
            return;  // kStop
        }
        const RoundOrder order = std::move(granted_.front());
        granted_.pop_front();
        carry_out(order);
        ++rounds_;
    }
}

void RingExecutor::carry_out(const RoundOrder& order) {
    check_invariant(begun_, "kBegin comes before the first round");
    if (!order.members.empty()) {
        round(order);
    }
    if (context_.worker() == 0) {
        snapshot(order.snapshot);
    }
    if (order.evaluate) {
        evaluate(order);
    }
}

void RingExecutor::round(const RoundOrder& order) {
    const auto mine = std::find_if(
        order.members.begin(), order.members.end(),
        [this](const RoundMember& member) { return member.worker == context_.worker(); });
    if (mine == order.members.end()) {
        fail<PeerError>({.where = fmt::format("round {}", order.round),
                         .what = "it leaves this worker out",
                         .hint = "the same program on all ranks"});
    }
    prepare(order);
    const Sum sum = compute(order, *mine);
    if (std::all_of(sum.tails.begin(), sum.tails.end(),
                    [](const RingTail& tail) { return tail.finite != 0; })) {
        apply(order, sum.floats);
    }
    if (context_.worker() == 0) {
        report(order, sum.tails);
    }
}

/// The exchange over the members of this round; none for one.
void RingExecutor::prepare(const RoundOrder& order) {
    std::vector<int> ranks;
    for (const RoundMember& member : order.members) {
        ranks.push_back(context_.links().map.rank_of_worker(member.worker));
    }
    if (ranks == members_) {
        return;
    }
    exchange_.reset();
    if (ranks.size() > 1) {
        const auto state = static_cast<std::int64_t>(replica_.state().size());
        exchange_ = make_exchange_(ranks, parameters() + state);
    }
    members_ = std::move(ranks);
}

RingExecutor::Sum RingExecutor::compute(const RoundOrder& order, const RoundMember& mine) {
    if (!exchange_) {
        AloneObserver observer(replica_, context_.injector());
        return {{train(batch_of(mine), observer)}, {}};
    }
    if (mine.lease == 0) {
        const std::span<float> buffer = exchange_->begin(order.round);
        std::fill(buffer.begin(), buffer.end(), 0.0F);
        exchange_->finish({});
        return {exchange_->wait().value(), buffer};
    }
    std::int64_t all = 0;
    for (const RoundMember& member : order.members) {
        all += member.samples;
    }
    const double share = static_cast<double>(mine.samples) / static_cast<double>(all);
    const LoadedBatch batch = batch_of(mine);
    const std::span<float> buffer = exchange_->begin(order.round);
    RingObserver observer(replica_, context_.injector(), *exchange_, buffer,
                          static_cast<float>(share));
    exchange_->finish(train(batch, observer));
    return {exchange_->wait().value(), buffer};
}

LoadedBatch RingExecutor::batch_of(const RoundMember& mine) {
    auto batch = context_.next_batch(false);
    if (!batch || batch->lease().id != mine.lease || batch->size() != mine.samples) {
        fail<PeerError>({.where = "round grant",
                         .what = "leases do not come in the order of the grants",
                         .expected = batch ? fmt::format("lease {} of {} samples",
                                                         batch->lease().id, batch->size())
                                           : std::string("none"),
                         .got = fmt::format("lease {} of {} samples", mine.lease, mine.samples),
                         .hint = "the same program on all ranks"});
    }
    return std::move(*batch);
}

RingTail RingExecutor::train(const LoadedBatch& batch, GradientObserver& observer) {
    const Clock::Seconds start = context_.clock().now();
    const auto result = replica_.train_step(view_of(batch), context_.job().options.seed, observer);
    observer.finish();
    const double squares = observer.sum_of_squares();
    RingTail tail;
    tail.samples = batch.size();
    tail.loss_sum = result->loss_sum;
    tail.correct = result->correct;
    tail.finite = std::isfinite(result->loss_sum) && std::isfinite(squares) ? 1 : 0;
    tail.compute_s = (context_.clock().now() - start).count();
    tail.gradient_norm = std::sqrt(squares);
    return tail;
}

void RingExecutor::apply(const RoundOrder& order, std::span<float> sum) {
    const bool on_host = replica_.device().kind() == DeviceKind::kCpu;
    std::span<const float> gradient = replica_.gradients();
    if (!sum.empty()) {
        const std::span<float> summed = sum.first(replica_.parameters().size());
        const std::span<float> statistics = sum.subspan(summed.size());
        context_.copy(replica_.batch_state(), statistics);
        if (on_host) {
            gradient = summed;
        } else {
            context_.copy(replica_.gradients(), summed);
        }
    }
    optimizer_->update(replica_.parameters(), gradient, order.fraction, order.lr);
    replica_.fold_batch_statistics(kBatchNormMomentum, order.fraction);
    ++version_;
}

void RingExecutor::report(const RoundOrder& order, const std::vector<RingTail>& tails) {
    RoundReport report{.round = order.round, .version = version_, .members = {}};
    for (const RingTail& tail : tails) {
        report.members.push_back({.samples = tail.samples,
                                  .loss_sum = tail.loss_sum,
                                  .correct = tail.correct,
                                  .finite = tail.finite != 0,
                                  .compute_s = tail.compute_s,
                                  .gradient_norm = tail.gradient_norm});
    }
    if (exchange_) {
        report.exchange_s = exchange_->times().exchange_s;
        report.exposed_s = exchange_->times().exposed_s;
    }
    context_.tell_coordinator(MessageKind::kRoundDone, report);
}

void RingExecutor::snapshot(const SnapshotOrder& order) {
    if (order.gather != 0) {
        auto values = std::make_shared<std::vector<float>>(replica_.parameters().size() +
                                                           replica_.state().size());
        const std::span<float> all = *values;
        context_.copy(all.first(replica_.parameters().size()), replica_.parameters());
        context_.copy(all.subspan(replica_.parameters().size()), replica_.state());
        const GatheredHeader header{.gather = order.gather, .version = version_, .part = 0};
        context_.links()
            .messenger
            .start_transfer(WorkerContext::coordinator(), Port::kWorker,
                            static_cast<std::uint16_t>(MessageKind::kGathered), encode(header),
                            std::as_bytes(all), ChunkOrder::kForward, values)
            ->release(all.size_bytes());
    }
    if (!order.checkpoint.empty()) {
        const Clock::Seconds start = context_.clock().now();
        ShardSnapshot copied = copy_replica(replica_, *optimizer_, version_);
        const double pause_s = (context_.clock().now() - start).count();
        writer_.write(order.checkpoint, std::move(copied), pause_s);
    }
}

/// Member i of n does part i of n; without members the same over all workers.
void RingExecutor::evaluate(const RoundOrder& order) {
    EvaluationOrder part{
        .id = order.evaluation, .part = context_.worker(), .parts = context_.links().map.workers()};
    for (std::size_t i = 0; i < order.members.size(); ++i) {
        if (order.members[i].worker == context_.worker()) {
            part.part = static_cast<std::int32_t>(i);
            part.parts = static_cast<std::int32_t>(order.members.size());
        }
    }
    context_.evaluate(part);
}

}  // namespace

std::unique_ptr<WorkerExecutor> make_ring_executor(WorkerContext& context,
                                                   RoundExchangeFactory rounds) {
    return std::make_unique<RingExecutor>(context, std::move(rounds));
}

}  // namespace cohort
