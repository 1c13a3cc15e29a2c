#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/model/replica.hpp"
#include "cohort/tensor/precision.hpp"

namespace cohort {

struct EngineBenchOptions {
    std::string model = "resnet20";
    std::int64_t batch = 128;
    int threads = 1;
    std::int64_t steps = 20;        ///< timed steps
    std::int64_t warmup_steps = 3;  ///< untimed steps before
    std::string device = "auto";
    PrecisionChoice precision = PrecisionChoice::kAuto;
    std::string tuning_file;  ///< as TrainEnvironment has it
    bool deterministic = false;
    bool profile = false;  ///< time every layer (costs some percent)
    /// Look for slow layers in the untimed steps, of which there must be SlowLayerWatch::kSteps + 1
    /// or more; on a CPU.
    bool slow_layers = false;
};

struct EngineBenchResult {
    std::string device;  ///< "cpu", "cuda:0"
    Precision precision = Precision::kF32;
    double median_s = 0;  ///< per step
    double min_s = 0;
    double per_second = 0;  ///< samples, or tokens of a language model; from the median
    double gflop_per_second = 0;
    std::uint64_t peak_bytes = 0;  ///< largest resident size of the process
    std::uint64_t arena_bytes = 0;
    std::int64_t steps = 0;
    /// Of one core's product of matrices (product_flops_per_second), after the timed steps, or as
    /// slow layers were compared with it; 0 unless a CPU's layers were timed.
    double product_gflop_per_second = 0;
    std::string slow_layers;            ///< slow_layers_sentence(), if that was asked for
    std::vector<LayerProfile> profile;  ///< sums over the timed steps; empty unless asked for
};

/// Times whole training steps (forward, backward, SGD with momentum 0.9 and weight decay 5e-4) on
/// synthetic data: 3x32x32 and 10 classes; 1x28x28 for lenet; 3x224x224 and 1000 classes for
/// resnet50; windows of 35 tokens out of 28782 for language models; for "lstm-layer", which is not
/// in the zoo, 30 positions of 64 features through a layer of 64 units. Blocks.
/// Errors: those of make_model, make_device and Replica.
[[nodiscard]] EngineBenchResult bench_engine(const EngineBenchOptions& options);
/// The same of any network of one input, in place of `options.model`.
[[nodiscard]] EngineBenchResult bench_engine(const EngineBenchOptions& options, Graph graph);

}  // namespace cohort
