#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/optim/learning_options.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/sched/chooser.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/job_options.hpp"
#include "cohort/sched/mode_options.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/stragglers.hpp"

namespace cohort {

enum class ServerNodes : std::uint8_t {
    kShared,  ///< with workers, spread evenly
    kOwn
};
template <>
inline constexpr auto kWords<ServerNodes> = std::to_array<std::string_view>({"shared", "own"});

/// Whose accuracy counts for the target.
enum class TargetOn : std::uint8_t { kPlain, kAverage };
template <>
inline constexpr auto kWords<TargetOn> = std::to_array<std::string_view>({"plain", "average"});

/// Everything `cohort simulate` can be told; the option of the same name (underscores for dashes),
/// sim/scenario/option_list.hpp and docs/options.md list them.
struct SimulateOptions : JobOptions, ModeOptions, ChooserOptions, LearningOptions {
    SimulateOptions() {
        model = "smallcnn";
        batch = 64;
        lr = 0.05;
    }

    std::string time_as;  ///< workload of the profile that sets times and bytes; empty: `model`
    int workers = 8;
    int nodes = 0;  ///< 0: one per worker
    ServerNodes server_nodes = ServerNodes::kShared;
    std::string profile = "8gpu-10g";
    std::string pattern = "healthy";  ///< NAME[:STRENGTH]
    std::string trace;                ///< CSV file, in place of a pattern
    std::uint64_t pattern_seed = 1;
    bool measure_gradients = false;  ///< their noise scale, whatever the mode
    double virtual_limit_s = 0;      ///< ends the run at this virtual time; 0: none
    std::int64_t eval_samples = 0;   ///< test samples until near the target; 0: all
    double eval_average = 0;  ///< the mean of the parameters is evaluated too; its time constant,
                              ///< reference batches; 0: it is not
    TargetOn target_on = TargetOn::kPlain;
    bool no_train = false;     ///< time only
    bool record_load = false;  ///< the result holds IterationRecords
};

/// A test result on the way. `samples` of the test set; all of it when it decides.
struct EvaluationPoint {
    double virtual_s = 0;
    std::int64_t samples_applied = 0;
    std::optional<double> accuracy = 0;  ///< none: a regression
    double loss = 0;
    std::int64_t test_samples = 0;
    std::optional<double> average_accuracy;  ///< of the mean of the parameters; none: no such mean
    std::optional<double> average_loss;
};

/// What a worker did between two moments.
struct LaneSpan {
    enum class Kind : std::uint8_t { kDelay, kInput, kCompute, kPush, kWait, kPull, kLost };
    int worker = 0;
    Kind kind = Kind::kCompute;
    double begin_s = 0;
    double end_s = 0;
};

/// What a node or server did over the run.
struct ServerUse {
    int node = 0;
    double cpu_core_s = 0;  ///< of updates
    double rx_bytes = 0;    ///< pushes, over the node's network card
    double tx_bytes = 0;    ///< parameters, the same
    double busy_s = 0;      ///< with at least one update in work
    double share = 0;       ///< of the parameters that it owns, at the end
};

/// Servers' parts of the parameters were resized.
struct ShardResize {
    double asked_s = 0;  ///< virtual time: from then on no new work was given out
    double begun_s = 0;  ///< all work was done, parameters began to move
    double ended_s = 0;  ///< work went on
    double bytes = 0;    ///< parameters and optimizer state that moved
    std::string why;
};

/// Of a run under the virtual clock.
struct SimulationResult {
    std::vector<std::pair<std::string, std::string>> options;  ///< effective ones, by name
    std::string command;                                       ///< that repeats it
    std::string stop_reason;  ///< "target", "budget", "time", "signal"
    double virtual_s = 0;
    std::int64_t samples_applied = 0;
    std::int64_t updates = 0;
    std::uint64_t events = 0;
    std::uint64_t digest = 0;           ///< over the event log and the final parameters
    std::optional<double> noise_scale;  ///< phi, samples, at the end; none: not measured
    std::optional<double> tta_virtual_s;
    std::optional<std::int64_t> samples_to_target;
    std::optional<double> accuracy = 0;  ///< at the end, whole test set; none: a regression
    double loss = 0;
    double healthy_iteration_s = 0;  ///< of a worker by the profile, transfers included
    /// Pace if nobody waited for anybody, see docs/simulate.md; none: stopped by a signal.
    std::optional<double> ideal_samples_s;
    EngineAccounts accounts;
    std::vector<WorkerReport> workers;
    std::vector<double> worker_busy_s;  ///< computing
    std::vector<double> worker_wait_s;  ///< released late because of others
    std::vector<double> worker_cpu_s;   ///< core seconds, input work; in rings updates too
    std::vector<double> worker_bytes;   ///< sent and received
    std::vector<ServerUse> servers;
    std::vector<ShardResize> resizes;
    std::vector<EvaluationPoint> evaluations;
    std::vector<SwitchReport> switches;
    /// Those that lasted (StragglerNews), in the order in which they ended; the first kStragglers.
    std::vector<StragglerEpisode> stragglers;
    static constexpr std::size_t kStragglers = 20000;
    std::vector<PredictorScore> predictor_scores;  ///< of a chooser's predictor
    std::vector<IterationRecord> records;  ///< SimulateOptions::record_load: the first kRecords
    static constexpr std::size_t kRecords = 200'000;
    /// Of choosers; the first kDecisions.
    std::vector<DecisionRecord> decisions;
    static constexpr std::size_t kDecisions = 10'000;
    /// What plans achieved, of modes that measure it or all with record_rates; the first kWindows.
    std::vector<RateWindow> windows;
    static constexpr std::size_t kWindows = 20'000;
    std::vector<std::int64_t>
        lag_histogram;  ///< pushes by lag, kLagBins per reference batch; the last holds the rest
    static constexpr int kLagBins = 8;
    std::vector<LaneSpan> lanes;  ///< of the first kLaneSpans spans from lanes_from_s on
    double lanes_from_s = 0;
    static constexpr std::size_t kLaneSpans = 20000;
    // Of the real clock; not part of the digest.
    double wall_s = 0;
    double engine_core_s = 0;           ///< in gradients, evaluations and updates
    std::int64_t threads = 0;           ///< that compute gradients
    std::int64_t samples_computed = 0;  ///< that gradients were computed on, applied or not
    std::uint64_t buffer_bytes = 0;     ///< most, in parameters, gradients and deltas
    std::uint64_t peak_bytes = 0;       ///< most resident memory of the process
};

/// Where a run stands, for progress lines.
struct SimulationProgress {
    double virtual_s = 0;
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;
    std::uint64_t events = 0;
    std::optional<EvaluationPoint> evaluation;  ///< new since the last call
    std::optional<SwitchReport> change;         ///< the same
};

/// The options with what others decide filled in: mode, servers, nodes, time_as.
[[nodiscard]] SimulateOptions resolved(SimulateOptions options);
/// All of them as text, by the names of the command line, in its order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> option_values(
    const SimulateOptions& options);
/// The command that repeats a run, for a shell: what differs from the defaults, without `out`.
[[nodiscard]] std::string command_text(const SimulateOptions& options);
[[nodiscard]] ModeSetting mode_setting(const SimulateOptions& options);

/// Whether some mode looks at gradients to accept them, for which there must be some.
/// @param options  checked
[[nodiscard]] bool judges_gradients(const SimulateOptions& options);

/// The options resolved, with `modes` filled in and what can be known without opening a file
/// checked. Errors: UsageError.
[[nodiscard]] SimulateOptions checked(SimulateOptions options);
/// Checks what depends on the profile: that it knows the workload and that its nodes have room.
/// @param options  resolved  Errors: UsageError.
void check_profile(const SimulateOptions& options, const ClusterProfile& profile);
/// Runs it in this thread (gradients on others). Deterministic: two runs have the same digest.
/// @param progress called about every thousand events and whenever something is new; true: stop
/// Errors: UsageError, FileError.
[[nodiscard]] SimulationResult simulate(
    const SimulateOptions& options, const std::function<bool(const SimulationProgress&)>& progress);

/// Name of the result's file in a folder.
inline constexpr const char* kResultFile = "result.h5";
/// What can be known before a run without touching the folder. Errors: UsageError when it holds a
/// result and `overwrite` is false, FileError when it cannot be made or written.
void check_result_folder(const std::string& folder, bool overwrite);
/// Writes kResultFile in a folder, which is made when it is missing: everything of a result, at
/// once or not at all; docs/simulate.md describes it. No Hdf5Thread may live meanwhile, here and
/// below. Errors: FileError.
void write_result(const std::string& folder, const SimulationResult& result);
[[nodiscard]] SimulationResult read_result(const std::string& file);

}  // namespace cohort
