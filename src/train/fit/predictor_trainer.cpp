#include "train/fit/predictor_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kWindow = LstmModel::kWindow;
constexpr std::int64_t kFeatures = LstmModel::kFeatures;
constexpr std::int64_t kOutputs = LstmModel::kOutputs;
/// Least deviation: the noise of (almost) constant features must not be amplified.
constexpr double kLeastDeviation = 1e-2;

/// f(tensor in the flat buffer, its place in LstmModel::parameters)
template <class F>
void for_each_tensor(const FlatLayout& layout, F&& f) {
    std::int64_t at = 0;
    for (const FlatRange& range : layout.ranges()) {
        f(range, at);
        at += range.size;
    }
    check_invariant(at == LstmModel::parameter_count(), "the predictor has one shape");
}

void check(const PredictorTrainingOptions& options) {
    const bool usable = options.epochs >= 1 && options.patience >= 1 && options.batch >= 1 &&
                        options.stride >= 1 && options.lr > 0 && options.held_out >= 0 &&
                        options.held_out < 1;
    if (!usable) {
        fail<UsageError>({.where = "predictor training",
                          .what = "an option is out of range",
                          .expected = "epochs, patience, batch, stride >= 1, lr > 0, "
                                      "0 <= held-out < 1"});
    }
}

/// Series that are long enough for a window and the record after it.
std::vector<PredictorSeries> long_enough(std::span<const PredictorSeries> series) {
    std::vector<PredictorSeries> usable;
    for (const PredictorSeries& one : series) {
        if (one.features.size() > static_cast<std::size_t>(LstmModel::kWindow)) {
            usable.push_back(one);
        }
    }
    if (usable.empty()) {
        fail<UsageError>(
            {.where = "predictor training",
             .what = "no worker has enough records",
             .expected = std::to_string(LstmModel::kWindow + 1) + " or more of at least one worker",
             .got = std::to_string(series.size()) + " shorter series"});
    }
    return usable;
}

template <class T>
void shuffle(std::vector<T>& items, std::uint64_t seed, std::uint64_t stream) {
    Rng rng(seed, RngPurpose::kPredictor, stream);
    for (std::size_t i = items.size(); i > 1; --i) {
        std::swap(items[i - 1], items[rng.next_below(static_cast<std::uint32_t>(i))]);
    }
}

/// Cosine from lr to a tenth of it.
double lr_of(const PredictorTrainingOptions& options, std::int64_t epoch) {
    const double progress = static_cast<double>(epoch - 1) / static_cast<double>(options.epochs);
    return options.lr * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * progress)));
}

/// One pass over the windows. @return the mean of the steps' errors
double run_epoch(PredictorTrainer& trainer, std::span<const PredictorSeries> series,
                 const PredictorTrainingOptions& options, std::int64_t epoch) {
    Rng rng(options.seed, RngPurpose::kPredictor, static_cast<std::uint64_t>(epoch), 1);
    const std::int64_t shift = rng.next_below(static_cast<std::uint32_t>(options.stride));
    std::vector<PredictorWindow> windows = cut_windows(series, options.stride, shift);
    shuffle(windows, options.seed, static_cast<std::uint64_t>(epoch));
    const std::span<const PredictorWindow> all = windows;
    const auto batch = static_cast<std::size_t>(options.batch);
    double sum = 0;
    for (std::size_t at = 0; at < all.size(); at += batch) {
        const auto part = all.subspan(at, std::min(batch, all.size() - at));
        sum += trainer.step(part, lr_of(options, epoch)) * static_cast<double>(part.size());
    }
    return sum / static_cast<double>(all.size());
}

}  // namespace

Graph predictor_graph() {
    GraphBuilder net("predictor", Shape{kWindow, kFeatures});
    Value x = net.input();
    for (int layer = 0; layer < LstmModel::kLayers; ++layer) {
        x = net.lstm(x, {.hidden = LstmModel::kHidden});
    }
    const Value next = net.linear(x, {.features = kFeatures});
    Value time = next;
    constexpr std::size_t kLast = LstmModel::kTimeNetwork.size() - 1;
    for (std::size_t layer = 1; layer <= kLast; ++layer) {
        time = net.linear(time, {.features = LstmModel::kTimeNetwork.at(layer)});
        time = layer < kLast ? net.relu(time) : time;
    }
    return net.finish_regression(net.concat({next, time}));
}

std::vector<PredictorWindow> cut_windows(std::span<const PredictorSeries> series,
                                         std::int64_t stride, std::int64_t shift) {
    std::vector<PredictorWindow> windows;
    for (const PredictorSeries& one : series) {
        const auto last = static_cast<std::int64_t>(one.features.size()) - kWindow - 1;
        if (last < 0) {
            continue;
        }
        // A series with less room than the shift still gives its window.
        for (std::int64_t at = std::min(shift, last); at <= last; at += stride) {
            windows.push_back({one.features.data() + at});
        }
    }
    return windows;
}

PredictorTrainer::PredictorTrainer(int threads)
    : device_(make_cpu_device(threads)),
      replica_(predictor_graph(), *device_, {.deterministic = true}) {
    reset_optimizer();
}

void PredictorTrainer::reset_optimizer() {
    const FlatLayout& layout = replica_.graph().parameters();
    optimizer_ = make_optimizer({.kind = OptimizerKind::kAdamW, .weight_decay = 0}, layout, 0,
                                layout.total(), *device_, replica_.stream());
}

void PredictorTrainer::begin(std::span<const PredictorSeries> series, std::uint64_t seed) {
    replica_.initialise(seed);
    scaling_ = {};
    for (std::size_t k = 0; k < scaling_.feature_mean.size(); ++k) {
        double count = 0;
        double sum = 0;
        double squares = 0;
        for (const PredictorSeries& one : series) {
            for (const LstmFeatures& features : one.features) {
                const auto value = static_cast<double>(features.at(k));
                count += 1;
                sum += value;
                squares += value * value;
            }
        }
        const double mean = sum / count;
        const double variance = std::max(0.0, squares / count - mean * mean);
        scaling_.feature_mean.at(k) = static_cast<float>(mean);
        scaling_.feature_deviation.at(k) =
            static_cast<float>(std::max(std::sqrt(variance), kLeastDeviation));
    }
    scaling_.time_mean = scaling_.feature_mean.at(LstmModel::kTime);
    scaling_.time_deviation = scaling_.feature_deviation.at(LstmModel::kTime);
    reset_optimizer();
}

void PredictorTrainer::load(const LstmModel& model) {
    for_each_tensor(replica_.graph().parameters(), [&](const FlatRange& range, std::int64_t at) {
        std::copy_n(model.parameters.begin() + at, range.size,
                    replica_.parameters().begin() + range.offset);
    });
    scaling_ = model;
    scaling_.parameters = {};
    reset_optimizer();
}

LstmModel PredictorTrainer::model() {
    LstmModel model = scaling_;
    model.parameters.resize(static_cast<std::size_t>(LstmModel::parameter_count()));
    for_each_tensor(replica_.graph().parameters(), [&](const FlatRange& range, std::int64_t at) {
        std::copy_n(replica_.parameters().begin() + range.offset, range.size,
                    model.parameters.begin() + at);
    });
    return model;
}

BatchView PredictorTrainer::fill(std::span<const PredictorWindow> windows) {
    const auto count = static_cast<std::int64_t>(windows.size());
    samples_.resize(static_cast<std::size_t>(count * kWindow * kFeatures));
    targets_.resize(static_cast<std::size_t>(count * kWindow * kOutputs));
    float* sample = samples_.data();
    float* target = targets_.data();
    for (const PredictorWindow& window : windows) {
        for (std::int64_t t = 0; t < kWindow; ++t) {
            const LstmFeatures& next = window.first[t + 1];
            for (std::size_t k = 0; k < next.size(); ++k) {
                const float mean = scaling_.feature_mean.at(k);
                const float deviation = scaling_.feature_deviation.at(k);
                *sample++ = (window.first[t].at(k) - mean) / deviation;
                *target++ = (next.at(k) - mean) / deviation;
            }
            *target++ = (next.at(LstmModel::kTime) - scaling_.time_mean) / scaling_.time_deviation;
        }
    }
    return {.samples = samples_.data(), .size = count, .targets = targets_.data()};
}

double PredictorTrainer::step(std::span<const PredictorWindow> windows, double lr) {
    const BatchResult result = replica_.train_step(fill(windows));
    optimizer_->update(replica_.parameters(), replica_.gradients(), 1, lr);
    return result.loss_sum / static_cast<double>(result.samples);
}

PredictorError PredictorTrainer::error(std::span<const PredictorWindow> windows,
                                       std::int64_t from) {
    constexpr std::size_t kAtOnce = 32;
    PredictorError error;
    std::vector<float> outputs;
    std::int64_t positions = 0;
    for (std::size_t at = 0; at < windows.size(); at += kAtOnce) {
        const BatchView batch = fill(windows.subspan(at, std::min(kAtOnce, windows.size() - at)));
        outputs.resize(targets_.size());
        replica_.infer(batch, outputs);
        for (std::int64_t position = 0; position < batch.size * kWindow; ++position) {
            if (position % kWindow < from) {
                continue;
            }
            ++positions;
            for (std::int64_t k = 0; k < kOutputs; ++k) {
                const auto i = static_cast<std::size_t>(position * kOutputs + k);
                const double off =
                    static_cast<double>(outputs[i]) - static_cast<double>(targets_[i]);
                error.all += off * off;
                error.time += k == kOutputs - 1 ? off * off : 0;
            }
        }
    }
    error.all /= static_cast<double>(positions * kOutputs);
    error.time /= static_cast<double>(positions);
    return error;
}

LstmModel train_predictor(std::span<const PredictorSeries> series,
                          const PredictorTrainingOptions& options,
                          const std::function<void(const PredictorProgress&)>& progress) {
    check(options);
    std::vector<PredictorSeries> usable = long_enough(series);
    shuffle(usable, options.seed, 0);
    const auto wanted = static_cast<std::size_t>(
        std::llround(options.held_out * static_cast<double>(usable.size())));
    const std::size_t held_out =
        std::clamp(wanted, std::size_t{usable.size() > 1 ? 1U : 0U}, usable.size() - 1);
    const std::span<const PredictorSeries> all = usable;
    const auto training = all.subspan(held_out);
    const auto judging = held_out > 0 ? all.first(held_out) : all;
    const auto judged = cut_windows(judging, LstmModel::kWindow, 0);

    PredictorTrainer trainer(options.threads);
    trainer.begin(training, options.seed);
    LstmModel best = trainer.model();
    double lowest = std::numeric_limits<double>::infinity();
    std::int64_t since = 0;
    for (std::int64_t epoch = 1; epoch <= options.epochs && since < options.patience; ++epoch) {
        PredictorProgress now{.epoch = epoch,
                              .training_error = run_epoch(trainer, training, options, epoch),
                              .held_out = trainer.error(judged)};
        now.best = now.held_out.all < lowest;
        ++since;
        if (now.best) {
            lowest = now.held_out.all;
            best = trainer.model();
            since = 0;
        }
        if (progress) {
            progress(now);
        }
    }
    return best;
}

}  // namespace cohort
