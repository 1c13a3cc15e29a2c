#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"

namespace cohort {

/// What a run needs from the program around it.
struct TrainEnvironment {
    std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
    std::function<bool()> stop_requested = [] { return false; };  ///< asked after every step
    bool live_line = false;  ///< rewrite one line on standard error instead of logging lines
    int cores = 1;           ///< threads of the device when the options say 0
    int world_size = 1;
};

/// The outcome of a run; also the last line of metrics.jsonl.
struct TrainSummary {
    StopReason reason = StopReason::kBudget;
    TrainProgress progress;
    SampleAccounts accounts;
    std::optional<EvaluationReport> test;  ///< the last evaluation, if there was one
    double samples_per_s = 0;              ///< applied in this part / its time without evaluation
    std::uint64_t arena_bytes = 0;         ///< activations and workspaces of the network
    std::uint64_t peak_bytes = 0;          ///< most resident memory of the process so far
    bool outputs_saved = true;  ///< false: the last checkpoint, model.h5 or metrics are incomplete
};

/// One training run: opens and checks data, model, device and options when made, trains in run().
class Trainer {
public:
    /// Errors: UsageError, FileError, ShapeError, DeviceError: all that can be known before the
    /// first step. Touches nothing in options.out.
    Trainer(const TrainOptions& options, const TrainEnvironment& environment);
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;
    ~Trainer();

    [[nodiscard]] const Graph& graph() const noexcept;
    [[nodiscard]] const Device& device() const noexcept;
    [[nodiscard]] const SampleSetInfo& train_info() const noexcept;
    [[nodiscard]] const SampleSetInfo& test_info() const noexcept;
    /// Samples after which the run ends.
    [[nodiscard]] std::int64_t budget_samples() const noexcept;

    /// Trains until the budget, the target accuracy or a stop request. Once per object.
    /// Errors: NumericalError when training diverged; FileError, DeviceError; each with the step.
    TrainSummary run();

private:
    class Run;
    std::unique_ptr<Run> run_;
};

/// Accuracy and loss of a model file on group "train" or "test" of a dataset, normalised as the
/// model's training data was; a line in the log says so when the dataset's own mean or std differ.
/// @param threads of the device  @param batch samples per step
[[nodiscard]] EvaluationReport evaluate_model(const std::string& model_file,
                                              const std::string& data, const std::string& group,
                                              const std::string& device, int threads,
                                              std::int64_t batch);

}  // namespace cohort
