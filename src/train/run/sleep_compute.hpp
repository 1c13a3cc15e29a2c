#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/model/trainable_model.hpp"
#include "data/dataset/recording.hpp"

namespace cohort {

/// What `--compute` says: "network" or "sleep:T", either with "+recorded:NAME".
struct ComputeChoice {
    /// Seconds that a mini-batch of --batch samples takes in place of the network's.
    std::optional<double> sleep_s;
    std::optional<std::string> recording;  ///< whose times come on top: its name or file
};
/// Names the recording's option in errors.
inline constexpr std::string_view kRecordedOption = "--compute recorded";
/// Errors: UsageError for any other text.
[[nodiscard]] ComputeChoice parse_compute(const std::string& text);

/// Mini-batches that take a given time and compute nothing, so that many ranks can be studied on
/// few cores. Between short sleeps the observer is asked as between two layers, first with no
/// gradient, as in a forward pass, then with one range of zeros after the other, from the end to
/// the beginning. Loss and accuracy are 0, batch statistics the running ones.
class SleepCompute final : public TrainableModel {
public:
    using Sleep = std::function<void(Clock::Seconds)>;

    /// @param device outlives it  @param seconds_per_sample time of a sample
    /// @param clock of the sleeps  @param sleep null: this thread sleeps
    SleepCompute(Graph graph, Device& device, double seconds_per_sample,
                 std::shared_ptr<const Clock> clock, Sleep sleep = {});

    std::optional<BatchResult> train_step(const BatchView& batch, std::uint64_t seed,
                                          StepObserver& observer) override;
    /// Nothing is computed: sums of 0.
    BatchResult evaluate(const BatchView& batch) override { return {.samples = batch.size}; }

private:
    void rest(Clock::Seconds piece);

    double seconds_per_sample_;
    std::shared_ptr<const Clock> clock_;
    Sleep sleep_;
    Clock::Seconds owed_{0};  ///< sleep that is due; negative after oversleeping
};

}  // namespace cohort
