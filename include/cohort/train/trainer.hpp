#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"
#include "cohort/train/own_network.hpp"

namespace cohort {

/// Opens the samples of group "train" or "test": called on every rank, for the same samples each
/// time. Errors: any of Error.
using SampleOpener = std::function<std::shared_ptr<SampleSource>(const std::string& group)>;

class MirrorStore;

/// Environment of a run, set by the program.
struct TrainEnvironment {
    std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
    std::function<bool()> stop_requested = [] { return false; };  ///< called after every step
    bool live_line = false;  ///< rewrite one line on standard error instead of logging lines
    int cores = 1;           ///< cores that this process may use; ranks that share them divide them
    World* world = nullptr;  ///< the ranks of the job; null: this process alone
    /// Where copies of the run's state are held for when this World loses rank 0 or a server; then
    /// run() throws WorldLost on every rank that is left (World::survive), and a Trainer in the
    /// next World goes on from them. Null: such a loss ends the job.
    MirrorStore* mirrors = nullptr;
    std::vector<std::string> losses;  ///< that ended earlier Worlds of this run, sentences
    /// File for the measured choices of GPU algorithms; empty: they are not stored. A deterministic
    /// run does not use it.
    std::string tuning_file;
    /// The program's own samples, in place of the file TrainOptions::data, which is then a name for
    /// messages.
    SampleOpener samples;
    /// The program's own network, in place of TrainOptions::model, which is then a name; outlives
    /// the run. None: null.
    const OwnNetwork* network = nullptr;
    /// Makes one more observer of the run, on rank 0; empty: there is none. It is called after
    /// every update, evaluation, checkpoint, ... (TrainHook).
    std::function<std::unique_ptr<TrainHook>()> observer;
    /// As ModeSetting::admits; on rank 0.
    std::function<bool(const SyncPlan& wanted, double worth)> admits;
};

/// What the thread that refines the predictor's model has done.
struct RefinerUse {
    double cpu_s = 0;
    std::int64_t steps = 0;     ///< of training
    std::int64_t renewals = 0;  ///< better models
};

struct LossSummary {
    int workers = 0;    ///< number of losses of workers
    int returned = 0;   ///< number of returns of lost workers
    std::string story;  ///< for people; empty: no losses
    int takeovers = 0;  ///< number of TrainEnvironment::losses
};

/// The outcome of a run; also the last line of metrics.jsonl.
struct TrainSummary {
    StopReason reason = StopReason::kBudget;
    std::string mode;
    int workers = 1;
    int servers = 0;
    TrainProgress progress;
    SampleAccounts accounts;
    ClusterReport cluster;                         ///< of this part of the run
    int switches = 0;                              ///< from one mode to another
    int regroupings = 0;                           ///< changes of plan within a mode
    std::vector<PredictorScore> predictor_scores;  ///< of a chooser's predictor
    StragglerNews::Brief brief;                    ///< slowness too short to be reported
    LossSummary losses;
    std::optional<EvaluationReport> test;  ///< the last evaluation, if there was one
    Task task = Task::kClassification;
    double part_s = 0;                 ///< training time of this part without evaluation
    double samples_per_s = 0;          ///< applied in this part / its time without evaluation
    std::uint64_t arena_bytes = 0;     ///< activations and workspaces of the network, largest rank
    std::uint64_t peak_bytes = 0;      ///< most resident memory of a process so far, largest rank
    std::uint64_t staging_bytes = 0;   ///< peak memory for pushes, largest server
    std::uint64_t snapshot_bytes = 0;  ///< peak memory for parameters being sent, largest server
    std::uint64_t bytes_sent = 0;      ///< between ranks, all ranks together
    std::uint64_t bytes_received = 0;
    RefinerUse refiner;
    double comm_cpu_seconds = 0;  ///< of the communication threads, all ranks together
    /// Mean seconds per mini-batch of a worker (rings: worker 0's): in forward and backward, from
    /// the end of backward until the next start, and, with rings, of the whole exchange with its
    /// hidden part.
    double compute_s = 0;
    double exposed_s = 0;
    double exchange_s = 0;
    bool outputs_saved = true;  ///< false: the last checkpoint, model.h5 or metrics are incomplete
};

/// Exit code of a program after a run: kInput when results could not be saved, kRequeue after a
/// signal, else kDone.
[[nodiscard]] ExitCode exit_code(const TrainSummary& summary) noexcept;

/// One training run: opens and checks data, model, device and options when made, trains in run().
/// With many ranks every rank makes one and runs it, as worker or as server; rank 0 also
/// coordinates.
class Trainer {
public:
    /// Collective. Errors: UsageError, FileError, ShapeError, DeviceError: all errors that can be
    /// found before the first step, thrown on every rank when one rank has one (rank 0 gets the
    /// text, the others an empty text). Changes nothing in options.out.
    Trainer(const TrainOptions& options, const TrainEnvironment& environment);
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;
    ~Trainer();

    [[nodiscard]] const Graph& graph() const noexcept;
    /// Device of this rank's role, for people.
    [[nodiscard]] std::string device() const;
    [[nodiscard]] const SampleSetInfo& train_info() const noexcept;
    [[nodiscard]] const SampleSetInfo& test_info() const noexcept;
    /// Samples after which the run ends.
    [[nodiscard]] std::int64_t budget_samples() const noexcept;

    /// Trains until the budget, the target accuracy or a stop request. Collective, once per
    /// object. The summary is rank 0's; other ranks get an empty one.
    /// Errors, on rank 0: NumericalError when training diverged; FileError, DeviceError; each with
    /// the step; all ranks have then stopped in order. WorldLost, see TrainEnvironment::mirrors.
    /// A role that fails on one of many ranks ends the job (World::abort).
    TrainSummary run();

private:
    class Run;
    std::unique_ptr<World> own_world_;  ///< when none was given
    std::unique_ptr<Run> run_;
};

/// Scores of a model.h5 or an ONNX file on group "train" or "test" of a dataset, normalised as the
/// model's training data was (ONNX: as the dataset's train group); a line in the log says so when
/// the dataset's own mean or std differ.
/// @param threads of the device  @param batch samples per step  @param tuning_file  as
/// TrainEnvironment has it
[[nodiscard]] EvaluationReport evaluate_model(const std::string& model_file,
                                              const std::string& data, const std::string& group,
                                              const std::string& device, int threads,
                                              std::int64_t batch,
                                              PrecisionChoice precision = PrecisionChoice::kAuto,
                                              const std::string& tuning_file = "");

}  // namespace cohort
