#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cohort/model/graph.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/tensor/precision.hpp"

namespace cohort {

struct ProfileMeasureOptions {
    std::string model = "smallcnn";
    std::string data;  ///< dataset file; empty: synthetic samples
    /// Of synthetic samples: CxHxW or F, of text the tokens of a sample; empty: 1x28x28, or 35.
    std::string input;
    std::int64_t classes = 0;  ///< of synthetic samples; 0: 10, of text 28,782
    std::string augment = "none";
    OptimizerKind optimizer = OptimizerKind::kSgd;
    std::string device = "auto";
    PrecisionChoice precision = PrecisionChoice::kAuto;
    std::string tuning_file;        ///< as TrainEnvironment has it
    std::int64_t batch = 64;        ///< half, once and twice this and a quarter of it are measured
    int threads = 1;                ///< of a worker, when the device is the CPU
    int loader_threads = 1;         ///< of a worker
    std::int64_t repetitions = 15;  ///< of every measurement, >= kLeastRepetitions
    static constexpr std::int64_t kLeastRepetitions = 7;
};

/// A measurement: seconds for some units of work.
struct CostPoint {
    double units = 0;
    double seconds = 0;
};
/// seconds = fixed_s + per_unit_s units, neither negative.
struct CostFit {
    double fixed_s = 0;
    double per_unit_s = 0;
};
/// The line fitted by least squares of relative errors; if it began below zero, the best line
/// through the origin, and if it fell, the best constant. Errors: UsageError for fewer than two
/// points or seconds not above 0.
[[nodiscard]] CostFit fit_costs(std::span<const CostPoint> points);

/// Median of what `measure` gives, after `warmup` calls that do not count.
[[nodiscard]] double median_of(std::int64_t repetitions, const std::function<double()>& measure,
                               int warmup = 2);

/// Medians over the repetitions.
struct MeasuredProfile {
    Workload workload;
    bool on_cpu = true;  ///< the worker's device
    double memory_bytes_per_s = 0;
    double update_s = 0;
    std::vector<CostPoint> device;   ///< forward and backward; units: samples
    std::vector<CostPoint> input;    ///< core seconds of the loader; units: samples
    std::vector<CostPoint> updates;  ///< of a server with one thread; units: bytes touched
};

/// Measures a worker's iteration and a server's update with the engine, the loader and the server
/// of this program. Times of one thread on the CPU are its CPU time, so other programs disturb
/// little. Blocks. Errors: UsageError, ShapeError, FileError, DeviceError.
[[nodiscard]] MeasuredProfile measure_profile(const ProfileMeasureOptions& options);

/// Measured between rank 0 and the rank farthest from it.
struct MeasuredExchange {
    int rank = 0;            ///< of this process
    bool same_host = true;   ///< both ranks are on one host
    double latency_s = 0;    ///< half of a small message's round trip
    double bytes_per_s = 0;  ///< rate of large transfers
};

/// Times messages and transfers between the first and the last rank of the job. Collective; blocks.
/// MPI is started and ended inside, so once per process. Errors: UsageError for fewer than two
/// ranks, PeerError.
[[nodiscard]] MeasuredExchange measure_exchange(std::int64_t repetitions);

/// CPU seconds of one server's thread in updates of the whole model and of an eighth of it, with
/// different numbers of pushes; units: bytes touched, (pushes + 4 + 1 copy released) times the
/// shard's. Medians over the repetitions. Errors: DeviceError when memory is short.
[[nodiscard]] std::vector<CostPoint> measure_updates(const Graph& graph,
                                                     const OptimizerOptions& optimizer,
                                                     std::int64_t repetitions);

}  // namespace cohort
