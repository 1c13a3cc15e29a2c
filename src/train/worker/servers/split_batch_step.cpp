#include "train/worker/servers/split_batch_step.hpp"

#include <algorithm>

#include "cohort/core/error.hpp"
#include "optim/vector_math.hpp"
#include "session/gradient_statistics.hpp"
#include "train/run/train_parts.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {
namespace {

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
