#include "train/fit/predictor_training.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "train/fit/predictor_trainer.hpp"

namespace cohort {
namespace {

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

PredictorError predictor_error(const LstmModel& model, std::span<const PredictorSeries> series) {
    const std::vector<PredictorSeries> usable = long_enough(series);
    PredictorTrainer trainer(1);
    trainer.load(model);
    return trainer.error(cut_windows(usable, LstmModel::kWindow, 0));
}

}  // namespace cohort
