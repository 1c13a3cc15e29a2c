// Post-local SGD (Lin et al. 2020): h steps on parameters of one's own, then the change is pushed;
// hierarchical SGD: the same with gradients that a group averages in every step. Cost of a lease:
// one copy of the parameters, a push as large as a gradient; in a group h rounds of its ring.
#include "train/worker/local_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/optim/vector_math.hpp"
#include "sched/session/gradient_statistics.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {
namespace {

/// Samples [begin, end) of a batch.
BatchView samples_of(const LoadedBatch& batch, std::int64_t begin, std::int64_t end) {
    const BatchView all = view_of(batch);
    const auto at = [&](const auto& values) {
        return values.data() + begin * (static_cast<std::int64_t>(values.size()) / all.size);
    };
    StoredSamples stored = all.stored;
    if (stored.values != nullptr) {
        stored.values += begin * stored.elements;
        stored.crops += begin;
    }
    return {.samples = at(batch.samples()),
            .labels = at(batch.labels()),
            .sample_ids = at(batch.sample_ids()),
            .size = end - begin,
            .epoch = all.epoch,
            .targets = at(batch.targets()),
            .tokens = at(batch.tokens()),
            .stored = stored};
}

/// Adds a part's gradient and statistics, with its share of the samples, to those of the others.
class PartObserver final : public GradientObserver {
public:
    PartObserver(WorkerContext& context, std::span<float> sum, float share, bool first,
                 std::function<bool()> give_up)
        : GradientObserver(context.compute().step_context(), std::move(give_up), !first),
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

}  // namespace

LocalSteps::LocalSteps(WorkerContext& context, std::int64_t floats)
    : context_(context),
      replica_(context.replica()),
      start_(replica_.parameters().size()),
      statistics_(replica_.state().size()),
      average_(static_cast<std::size_t>(floats)) {
    check_invariant(start_.size() + statistics_.size() == average_.size(),
                    "a delta has parameters and batch statistics");
}

std::optional<LocalSteps::Result> LocalSteps::run(const LoadedBatch& batch, const WorkOrder& work,
                                                  AllReduce* group, std::uint64_t group_round,
                                                  std::span<float> delta,
                                                  const std::function<bool()>& give_up) {
    check_invariant(delta.size() == average_.size() && work.steps >= 1, "a delta has its size");
    context_.compute().copy(start_, replica_.parameters());
    std::fill(statistics_.begin(), statistics_.end(), 0.0);
    counted_ = 0;
    run_ = {};
    if (std::exchange(generation_, work.generation) != work.generation) {
        forget();
    }
    End end = End::kDone;
    for (std::int32_t i = 0; i < work.steps && end == End::kDone; ++i) {
        const BatchView piece =
            samples_of(batch, batch.size() * i / work.steps, batch.size() * (i + 1) / work.steps);
        if (group != nullptr) {
            end = group_step(piece, work.lr, *group, group_round + static_cast<std::uint64_t>(i),
                             give_up);
        } else if (piece.size > 0) {
            end = step(piece, work.lr, give_up);
        }
    }
    finish(delta);
    if (end == End::kGivenUp) {
        forget();  // of steps that are not part of any update
        return std::nullopt;
    }
    run_.squares = sum_of_squares(delta.first(start_.size()));
    run_.finite = end == End::kDone && std::isfinite(run_.squares);
    run_.own_finite = run_.own_finite && (end != End::kDone || run_.finite);
    if (!run_.finite) {
        forget();  // its state is of no use either
    }
    return run_;
}

LocalSteps::End LocalSteps::step(const BatchView& piece, double lr,
                                 const std::function<bool()>& give_up) {
    AloneObserver observer(context_.compute().step_context(), give_up);
    const RoundSummary summary = compute(piece, observer);
    if (summary.samples == 0) {
        return End::kGivenUp;
    }
    if (!summary.finite) {
        return End::kNotFinite;
    }
    std::vector<float> batch_state(statistics_.size());
    context_.compute().copy(batch_state, replica_.batch_state());
    keep(batch_state, piece.size);
    update(lr);
    return End::kDone;
}

/// Each member puts in its gradient times its samples; the sum is divided by all samples. Who gives
/// up says so in its summary, which all members see in the same round: none waits for it in the
/// next.
LocalSteps::End LocalSteps::group_step(const BatchView& piece, double lr, AllReduce& group,
                                       std::uint64_t round, const std::function<bool()>& give_up) {
    const std::span<float> buffer = group.begin(round);
    check_invariant(buffer.size() == average_.size(), "a group sums what a delta holds");
    RoundSummary summary;
    if (piece.size > 0) {
        RingObserver observer(context_.compute().step_context(), group, buffer,
                              static_cast<float>(piece.size), {}, give_up);
        summary = compute(piece, observer);
    } else {
        context_.compute().fill_zero(group, buffer);
    }
    group.finish(pack_summary(summary));
    const auto summaries = unpack_summaries<RoundSummary>(group.wait());
    std::span<const float> sum = buffer;
    if (summaries && group.on_device()) {
        summed_.resize(buffer.size());
        context_.compute().copy(summed_, buffer);
        sum = summed_;
    }
    const End end = summaries ? average_of(*summaries, sum) : End::kGivenUp;
    if (end == End::kNotFinite) {
        group.set_rest(RoundRest::kReturned);  // the sum is not used
    }
    if (end == End::kDone && std::any_of(summaries->begin(), summaries->end(),
                                         [](const RoundSummary& one) { return one.samples > 0; })) {
        context_.compute().copy(replica_.gradients(), std::span(average_).first(start_.size()));
        update(lr);
    }
    return end;
}

/// Forward and backward. A summary without samples that is not finite says: given up.
RoundSummary LocalSteps::compute(const BatchView& piece, GradientObserver& observer) {
    const Clock::Seconds before = context_.clock().now();
    const std::optional<BatchResult> result = context_.compute().train_step(piece, observer);
    RoundSummary summary;
    summary.finite = false;
    if (result) {
        observer.finish();
        note_result(summary, *result, observer.sum_of_squares());
        run_.own_finite = run_.own_finite && summary.finite;
        run_.result.loss_sum += result->loss_sum;
        run_.result.correct += result->correct;
        run_.result.samples += piece.size;
    }
    summary.compute_s = context_.compute().own_seconds((context_.clock().now() - before).count());
    run_.compute_s += summary.compute_s;
    return summary;
}

LocalSteps::End LocalSteps::average_of(const std::vector<RoundSummary>& summaries,
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
        scale_into(average_, sum, static_cast<float>(1 / static_cast<double>(samples)));
        keep(std::span(average_).subspan(start_.size()), samples);
    }
    return end;
}

void LocalSteps::update(double lr) {
    const Clock::Seconds before = context_.clock().now();
    if (!optimizer_) {
        optimizer_ = make_optimizer(context_.job().optimizer, replica_.graph().parameters(), 0,
                                    replica_.graph().parameters().total(), replica_.device(),
                                    replica_.stream());
    }
    if (const double most = context_.job().options.clip_norm; most > 0) {
        context_.compute().clip(replica_.gradients(), most, true);
    }
    optimizer_->update(replica_.parameters(), replica_.gradients(), 1, lr);
    run_.compute_s += (context_.clock().now() - before).count();
}

void LocalSteps::keep(std::span<const float> batch_state, std::int64_t samples) {
    for (std::size_t i = 0; i < statistics_.size(); ++i) {
        statistics_[i] += static_cast<double>(samples) * static_cast<double>(batch_state[i]);
    }
    counted_ += samples;
}

/// The change so far into `delta`; the replica is as it was.
void LocalSteps::finish(std::span<float> delta) {
    const std::span<float> change = delta.first(start_.size());
    context_.compute().copy(change, replica_.parameters());
    for (std::size_t i = 0; i < start_.size(); ++i) {
        change[i] -= start_[i];
    }
    const double weight = counted_ > 0 ? 1 / static_cast<double>(counted_) : 0;
    std::transform(statistics_.begin(), statistics_.end(), delta.subspan(start_.size()).begin(),
                   [weight](double sum) { return static_cast<float>(weight * sum); });
    context_.compute().copy(replica_.parameters(), start_);
}

std::optional<SplitStep> train_split_batch(WorkerContext& context, const LoadedBatch& loaded,
                                           std::span<float> gradient,
                                           const std::function<bool()>& give_up) {
    const std::size_t parameters = context.replica().gradients().size();
    check_invariant(gradient.size() == parameters + context.replica().state().size(),
                    "a gradient comes with its batch statistics");
    const std::int64_t size = loaded.size();
    const std::int64_t first = GradientStatistics::first_half(size);
    SplitStep step;
    for (std::size_t half = 0; half < step.squares.size(); ++half) {
        const BatchView part =
            half == 0 ? samples_of(loaded, 0, first) : samples_of(loaded, first, size);
        const float share = static_cast<float>(part.size) / static_cast<float>(size);
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
