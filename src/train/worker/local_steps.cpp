// Post-local SGD (Lin et al. 2020): h steps on parameters of one's own, then the change is pushed;
// hierarchical SGD: the same with gradients that a group averages in every step. Cost of a lease:
// one copy of the parameters, a push as large as a gradient; in a group h rounds of its ring.
#include "train/worker/local_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "optim/vector_math.hpp"
#include "session/gradient_statistics.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/run/job_parts.hpp"
#include "train/worker/ring/worker_ring_observer.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {
namespace {

/// Hands a step on to the observer that takes its gradient, and gives up when asked to.
class Watched final : public StepObserver {
public:
    Watched(GradientObserver& inner, const std::function<bool()>& give_up)
        : inner_(inner), give_up_(give_up) {}
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        inner_.gradient_ready(begin, end);
    }
    bool should_interrupt() override {
        return inner_.should_interrupt() || (give_up_ && give_up_());
    }

private:
    GradientObserver& inner_;
    const std::function<bool()>& give_up_;
};

/// Piece `step` of `steps` of a batch; may be empty.
BatchView piece_of(const LoadedBatch& batch, std::int32_t step, std::int32_t steps) {
    const BatchView all = view_of(batch);
    const std::int64_t begin = all.size * step / steps;
    const std::int64_t end = all.size * (step + 1) / steps;
    const auto each = static_cast<std::int64_t>(batch.samples().size()) / all.size;
    return {.samples = all.samples + begin * each,
            .labels = all.labels + begin,
            .sample_ids = all.sample_ids + begin,
            .size = end - begin,
            .epoch = all.epoch};
}

/// Adds a part's gradient and statistics, with its share of the samples, to those of the others.
class PartObserver final : public GradientObserver {
public:
    PartObserver(WorkerContext& context, std::span<float> sum, float share, bool first,
                 std::function<bool()> give_up)
        : GradientObserver(context.compute().step_parts(), std::move(give_up), !first),
          parameters_(context.replica().gradients().size()),
          sum_(sum),
          share_(share),
          first_(first) {}

protected:
    void put(std::int64_t begin, std::span<const float> gradient) override {
        add(static_cast<std::size_t>(begin), gradient);
    }
    void put_statistics(std::span<const float> batch_state) override {
        add(parameters_, batch_state);
    }
    void final_from(std::int64_t /*low*/) override {}

private:
    void add(std::size_t begin, std::span<const float> values) {
        const std::span<float> to = sum_.subspan(begin, values.size());
        if (first_) {
            scale_into(to, values, share_);
        } else {
            add_scaled(to, values, share_);
        }
    }

    std::size_t parameters_;
    std::span<float> sum_;
    float share_;
    bool first_;
};

BatchView samples_of(const BatchView& batch, std::int64_t begin, std::int64_t end,
                     std::int64_t each) {
    return {.samples = batch.samples + begin * each,
            .labels = batch.labels + begin,
            .sample_ids = batch.sample_ids + begin,
            .size = end - begin,
            .epoch = batch.epoch};
}

}  // namespace

struct LocalSteps::Impl {
    enum class End : std::uint8_t { kDone, kNotFinite, kGivenUp };

    Impl(WorkerContext& with, std::int64_t floats)
        : context(with),
          replica(with.replica()),
          start(replica.parameters().size()),
          statistics(replica.state().size()),
          average(static_cast<std::size_t>(floats)) {
        check_invariant(start.size() + statistics.size() == average.size(),
                        "a delta has parameters and batch statistics");
    }

    [[nodiscard]] End step(const BatchView& piece, double lr, const std::function<bool()>& give_up);
    [[nodiscard]] End group_step(const BatchView& piece, double lr, AllReduce& group,
                                 std::uint64_t round, const std::function<bool()>& give_up);
    [[nodiscard]] RoundSummary compute(const BatchView& piece, GradientObserver& observer,
                                       const std::function<bool()>& give_up);
    [[nodiscard]] End average_of(const std::vector<RoundSummary>& summaries,
                                 std::span<const float> sum);
    void update(double lr);
    void keep(std::span<const float> batch_state, std::int64_t samples);
    void finish(std::span<float> delta);

    WorkerContext& context;
    Replica& replica;
    std::unique_ptr<Optimizer> optimizer;  ///< null: nothing remembered
    std::vector<float> start;
    std::vector<double> statistics;  ///< sums over samples
    std::uint64_t generation = 0;    ///< of the work before
    std::vector<float> average;      ///< of a group's gradients and statistics
    std::vector<float> summed;       ///< the sums, of an exchange in device memory
    std::int64_t counted = 0;        ///< samples in `statistics`
    Result run;                      ///< of the lease
};

LocalSteps::LocalSteps(WorkerContext& context, std::int64_t floats)
    : impl_(std::make_unique<Impl>(context, floats)) {
}

LocalSteps::~LocalSteps() = default;

void LocalSteps::forget() {
    impl_->optimizer.reset();
}

std::optional<LocalSteps::Result> LocalSteps::run(const LoadedBatch& batch, const WorkOrder& work,
                                                  AllReduce* group, std::uint64_t group_round,
                                                  std::span<float> delta,
                                                  const std::function<bool()>& give_up) {
    Impl& my = *impl_;
    check_invariant(delta.size() == my.average.size() && work.steps >= 1, "a delta has its size");
    my.context.compute().copy(my.start, my.replica.parameters());
    std::fill(my.statistics.begin(), my.statistics.end(), 0.0);
    my.counted = 0;
    my.run = {};
    if (std::exchange(my.generation, work.generation) != work.generation) {
        forget();
    }
    Impl::End end = Impl::End::kDone;
    for (std::int32_t step = 0; step < work.steps && end == Impl::End::kDone; ++step) {
        const BatchView piece = piece_of(batch, step, work.steps);
        if (group != nullptr) {
            end = my.group_step(piece, work.lr, *group,
                                group_round + static_cast<std::uint64_t>(step), give_up);
        } else if (piece.size > 0) {
            end = my.step(piece, work.lr, give_up);
        }
    }
    my.finish(delta);
    if (end == Impl::End::kGivenUp) {
        forget();  // of steps that are not part of any update
        return std::nullopt;
    }
    my.run.squares = sum_of_squares(delta.first(my.start.size()));
    my.run.finite = end == Impl::End::kDone && std::isfinite(my.run.squares);
    if (!my.run.finite) {
        forget();  // its state is of no use either
    }
    return my.run;
}

LocalSteps::Impl::End LocalSteps::Impl::step(const BatchView& piece, double lr,
                                             const std::function<bool()>& give_up) {
    AloneObserver observer(context.compute().step_parts());
    const RoundSummary summary = compute(piece, observer, give_up);
    if (summary.samples == 0) {
        return End::kGivenUp;
    }
    if (!summary.finite) {
        return End::kNotFinite;
    }
    std::vector<float> batch_state(statistics.size());
    context.compute().copy(batch_state, replica.batch_state());
    keep(batch_state, piece.size);
    update(lr);
    return End::kDone;
}

/// Each member puts in its gradient times its samples; the sum is divided by all samples. Who gives
/// up says so in its summary, which all members see in the same round: none waits for it in the
/// next.
LocalSteps::Impl::End LocalSteps::Impl::group_step(const BatchView& piece, double lr,
                                                   AllReduce& group, std::uint64_t round,
                                                   const std::function<bool()>& give_up) {
    const std::span<float> buffer = group.begin(round);
    check_invariant(buffer.size() == average.size(), "a group sums what a delta holds");
    RoundSummary summary;
    if (piece.size > 0) {
        const std::vector<AddedPush> nobody_else;
        RingObserver observer(context.compute().step_parts(), group, buffer,
                              static_cast<float>(piece.size), nobody_else);
        summary = compute(piece, observer, give_up);
    } else {
        context.compute().fill_zero(group, buffer);
    }
    group.finish(pack_summary(summary));
    const auto summaries = unpack_summaries<RoundSummary>(group.wait());
    std::span<const float> sum = buffer;
    if (summaries && group.on_device()) {
        summed.resize(buffer.size());
        context.compute().copy(summed, buffer);
        sum = summed;
    }
    const End end = summaries ? average_of(*summaries, sum) : End::kGivenUp;
    if (end == End::kDone && std::any_of(summaries->begin(), summaries->end(),
                                         [](const RoundSummary& one) { return one.samples > 0; })) {
        context.compute().copy(replica.gradients(), std::span(average).first(start.size()));
        update(lr);
    }
    return end;
}

/// Forward and backward. A summary without samples that is not finite says: given up.
RoundSummary LocalSteps::Impl::compute(const BatchView& piece, GradientObserver& observer,
                                       const std::function<bool()>& give_up) {
    const Clock::Seconds before = context.clock().now();
    Watched watched(observer, give_up);
    const std::optional<BatchResult> result = context.compute().train_step(piece, watched);
    RoundSummary summary;
    summary.finite = false;
    if (result) {
        observer.finish();
        summary.samples = piece.size;
        summary.loss_sum = result->loss_sum;
        summary.correct = result->correct;
        summary.finite =
            std::isfinite(result->loss_sum) && std::isfinite(observer.sum_of_squares());
        summary.gradient_norm = std::sqrt(observer.sum_of_squares());
        run.result.loss_sum += result->loss_sum;
        run.result.correct += result->correct;
        run.result.samples += piece.size;
    }
    summary.compute_s = context.compute().own_seconds((context.clock().now() - before).count());
    run.compute_s += summary.compute_s;
    return summary;
}

LocalSteps::Impl::End LocalSteps::Impl::average_of(const std::vector<RoundSummary>& summaries,
                                                   std::span<const float> sum) {
    End end = End::kDone;
    std::int64_t samples = 0;
    for (const RoundSummary& summary : summaries) {
        samples += summary.samples;
        if (!summary.finite && summary.samples == 0) {
            return End::kGivenUp;
        }
        if (!summary.finite) {
            end = End::kNotFinite;
        }
    }
    if (end == End::kDone && samples > 0) {
        scale_into(average, sum, static_cast<float>(1 / static_cast<double>(samples)));
        keep(std::span(average).subspan(start.size()), samples);
    }
    return end;
}

void LocalSteps::Impl::update(double lr) {
    const Clock::Seconds before = context.clock().now();
    if (!optimizer) {
        optimizer = make_optimizer(context.job().optimizer, replica.graph().parameters(), 0,
                                   replica.graph().parameters().total(), replica.device(),
                                   replica.stream());
    }
    optimizer->update(replica.parameters(), replica.gradients(), 1, lr);
    run.compute_s += (context.clock().now() - before).count();
}

void LocalSteps::Impl::keep(std::span<const float> batch_state, std::int64_t samples) {
    for (std::size_t i = 0; i < statistics.size(); ++i) {
        statistics[i] += static_cast<double>(samples) * static_cast<double>(batch_state[i]);
    }
    counted += samples;
}

/// The change so far into `delta`; the replica is as it was.
void LocalSteps::Impl::finish(std::span<float> delta) {
    const std::span<float> change = delta.first(start.size());
    context.compute().copy(change, replica.parameters());
    for (std::size_t i = 0; i < start.size(); ++i) {
        change[i] -= start[i];
    }
    const double weight = counted > 0 ? 1 / static_cast<double>(counted) : 0;
    std::transform(statistics.begin(), statistics.end(), delta.subspan(start.size()).begin(),
                   [weight](double sum) { return static_cast<float>(weight * sum); });
    context.compute().copy(replica.parameters(), start);
}

std::optional<SplitStep> train_split_batch(WorkerContext& context, const LoadedBatch& loaded,
                                           std::span<float> gradient,
                                           const std::function<bool()>& give_up) {
    const std::size_t parameters = context.replica().gradients().size();
    check_invariant(gradient.size() == parameters + context.replica().state().size(),
                    "a gradient comes with its batch statistics");
    const BatchView batch = view_of(loaded);
    const auto each = static_cast<std::int64_t>(loaded.samples().size()) / batch.size;
    const std::int64_t first = GradientStatistics::first_half(batch.size);
    SplitStep step;
    for (std::size_t half = 0; half < step.squares.size(); ++half) {
        const BatchView part = half == 0 ? samples_of(batch, 0, first, each)
                                         : samples_of(batch, first, batch.size, each);
        const float share = static_cast<float>(part.size) / static_cast<float>(batch.size);
        PartObserver observer(context, gradient, share, half == 0, give_up);
        const auto result = context.compute().train_step(part, observer);
        if (!result) {
            return std::nullopt;
        }
        observer.finish();
        const std::optional<double> device_s = context.compute().device_seconds();
        step.device_s =
            step.device_s && device_s ? std::optional(*step.device_s + *device_s) : std::nullopt;
        step.result.samples += result->samples;
        step.result.loss_sum += result->loss_sum;
        step.result.correct += result->correct;
        step.squares.at(half) = observer.sum_of_squares();
    }
    step.mean_squares = sum_of_squares(gradient.first(parameters));
    return step;
}

}  // namespace cohort
