#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/load_desk.hpp"
#include "cohort/sched/mode_desk.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/trainer.hpp"
#include "core/system/run_lock.hpp"
#include "sched/run/worker_books.hpp"
#include "train/coordinator/checkpoint_desk.hpp"
#include "train/coordinator/control_desk.hpp"
#include "train/coordinator/evaluation_desk.hpp"
#include "train/coordinator/gathering.hpp"
#include "train/coordinator/lease_desk.hpp"
#include "train/coordinator/loss_desk.hpp"
#include "train/coordinator/predictor_refiner.hpp"
#include "train/coordinator/snapshot_evaluator.hpp"
#include "train/coordinator/update_flow.hpp"
#include "train/protocol/links.hpp"
#include "train/run/job_parts.hpp"

namespace cohort {

/// Owns a run: the mode, its plan and engine, the leases, evaluations, checkpoints, metrics, who
/// takes part, and when it ends. Lives on a thread of rank 0 and is told of everything by messages
/// (protocol.hpp).
class Coordinator final : public TrainControl, private RunBooks {
public:
    /// @param links, parts, environment outlive it  @param device described in the metrics
    /// To be made before anybody can send to the coordinator's port.
    Coordinator(Links links, JobParts& parts, const TrainEnvironment& environment,
                std::string device);
    ~Coordinator() override;

    /// The whole run, once. Errors: NumericalError when training diverged; PeerError when too many
    /// workers were lost; FileError; whatever cancel() was told. All roles that are left have
    /// stopped then, unless they had failed.
    TrainSummary run();
    /// The output folder is this run's. From any thread.
    [[nodiscard]] bool owns_folder() const noexcept { return owns_folder_; }
    /// Leaves the last line of metrics.jsonl when the job ends because of a lost rank. From any
    /// thread; does not wait.
    void record_failure(ExitCode code, const std::string& reason) const noexcept;
    /// A role on this rank has failed: run() ends with its error. From any thread.
    void cancel(std::exception_ptr error);

    [[nodiscard]] const TrainOptions& options() const override { return parts_.options; }
    [[nodiscard]] const TrainProgress& progress() const override { return progress_; }
    [[nodiscard]] const Clock& clock() const override { return *environment_.clock; }
    [[nodiscard]] std::int64_t budget_samples() const override { return parts_.budget_samples; }
    [[nodiscard]] std::int64_t epoch_samples() const override {
        return parts_.train_set->info().samples;
    }
    [[nodiscard]] MetricsFile& metrics() override { return *metrics_; }
    [[nodiscard]] ClusterReport cluster() const override;
    void request_stop(StopReason reason) override { stop_ = stop_.value_or(reason); }
    void reach_target(double train_seconds) override;

private:
    // RunBooks
    [[nodiscard]] LeaseDesk& leases() override { return *leases_; }
    [[nodiscard]] UpdateEngine& engine() override { return *engine_; }
    [[nodiscard]] std::int64_t samples_applied() const override {
        return progress_.samples_applied;
    }
    [[nodiscard]] bool stopping() const override { return stop_ || leases_->finished(); }
    [[nodiscard]] UpdateExtras decide(std::int64_t samples) override;
    void commit(const UpdateRecord& update) override;
    void taken(const UpdateExtras& extras, int evaluation_parts) override;
    void drop(const BatchResult& result, const std::string& because) override;
    void spent(double compute_s, double exposed_s, double exchange_s) override;
    void begun(int worker, std::int64_t samples) override;
    void stopped(int worker) override;
    void timed(const IterationRecord& said) override;
    void settled(const PushOutcome& outcome) override;
    void installed(const SyncPlan& plan) override;
    [[nodiscard]] bool wants_gradients() const override {
        return modes_ && modes_->wants_gradients();
    }
    void measured(const GradientFacts& facts) override;

    void fail_run(const std::exception& error, ExitCode code);

    // The run, in the order of its steps.
    void begin();
    BeginOrder restore();
    void open_books(const LeaseState& leases, const SampleAccounts& accounts);
    void make_hooks();
    void listen();
    void train();
    void finish();
    void final_evaluation();
    [[nodiscard]] std::vector<int> evaluators_missing() const;
    void final_checkpoint();
    void dismiss();
    void stop_workers();
    [[nodiscard]] bool await_farewells();
    void said_farewell(const Message& message);
    [[nodiscard]] TrainSummary summarize();

    // Modes, workers that come and go, requests.
    [[nodiscard]] RunCounts counts() const;
    [[nodiscard]] std::optional<double> wake_s() const;
    void consult_modes();
    void keep_forecasts();
    void report_switches();
    void rank_news(const RankNews& news);
    void lost(const RankNews& news);
    void forget_load(int worker);
    void returned(const RankNews& news);
    void lost_at_the_end(const RankNews& news);
    void report_rank(const RankNews& news);
    [[nodiscard]] std::string requested(const std::string& words);
    [[nodiscard]] std::string status() const;

    /// Handles one message or none, and what is due.
    void step();
    /// step() until `done` holds, as a named wait.
    template <class Done, class Missing>
    void wait_until(const char* name, WaitLimit limit, const Done& done, const Missing& missing);
    /// A wait for those whom set_awaited() names.
    [[nodiscard]] OperationBoard::Wait wait_for_awaited(std::string_view name,
                                                        std::uint64_t sequence,
                                                        WaitLimit limit = WaitLimit::kFatal);
    void set_awaited(std::vector<int> ranks);
    void handle(const Message& message);
    void stop_requested(const StopRequest& request);
    void gathered(const Gathered& snapshot);
    void evaluated(const EvaluationReport& report);
    [[nodiscard]] SnapshotEvaluator& evaluator();
    void report_checkpoint(const CheckpointReport& report);
    void report_stragglers();
    [[nodiscard]] double seconds_of_training() const;
    void watch_updates();
    void update_times();
    [[nodiscard]] RunSnapshot run_snapshot();
    void save_model(const Gathered& snapshot);
    /// The error of cancel(); null: none.
    [[nodiscard]] std::exception_ptr cancelled();
    void check_cancelled();

    Links links_;
    JobParts& parts_;
    const TrainEnvironment& environment_;
    std::string device_;
    bool sleeps_;  ///< --compute: there is nothing to evaluate and no model
    std::vector<ShardRange> shards_;
    Gathering gathering_;
    std::unique_ptr<UpdateFlow> flow_;
    bool flow_begun_ = false;  ///< the roles have been told to begin
    bool training_ = false;    ///< updates are waited for

    std::optional<RunLock> lock_;  ///< on the output folder
    std::atomic<bool> owns_folder_{false};
    TrainProgress progress_;
    TrainProgress earlier_;  ///< of the parts before this one (times)
    std::int64_t version_ = 0;
    double reference_batches_ = 0;
    std::optional<ModeDesk> modes_;
    bool updated_ = false;    ///< an update was made since the modes were asked
    bool ask_modes_ = false;  ///< workers came or went, or somebody asked for a mode
    int switches_ = 0;
    int regroupings_ = 0;
    std::optional<Clock::Seconds> regrouping_said_;
    WorkerBooks workers_;
    std::unique_ptr<LoadDesk> load_;  ///< null in a deterministic run
    ChooserOptions chooser_;
    std::shared_ptr<const LstmModel> predictor_model_;  ///< null: the predictor needs none
    std::unique_ptr<PredictorRefiner> refiner_;         ///< of the model that forecasts come from
    LossDesk losses_;
    std::optional<ControlDesk> control_;
    std::optional<LeaseDesk> leases_;
    std::optional<UpdateEngine> engine_;
    std::optional<EvaluationDesk> evaluations_;
    std::optional<CheckpointDesk> checkpoints_;
    std::unique_ptr<SnapshotEvaluator> evaluator_;  ///< once a mode that does not wait needed it
    std::optional<StopReason> stop_;
    std::string failure_;  ///< of a worker's device, that ends the run
    std::optional<EvaluationReport> test_;
    std::optional<Gathered> model_;  ///< parameters of the end
    std::vector<Farewell> farewells_;
    std::vector<int> at_work_;  ///< world ranks that are owed a farewell
    bool workers_stopped_ = false;
    struct Spent {
        std::int64_t batches = 0;
        double compute_s = 0;
        double exposed_s = 0;
        double exchange_s = 0;
    } spent_;
    bool outputs_saved_ = true;

    Clock::Seconds started_{0};
    double pauses_ = 0;  ///< seconds that training stood still for evaluations, in this part
    double cpu_at_start_ = 0;
    std::unique_ptr<MetricsFile> metrics_;
    std::vector<std::unique_ptr<TrainHook>> hooks_;

    std::mutex mutex_;  ///< of what other threads read or write
    std::vector<int> awaited_;
    std::exception_ptr cancelled_;
    std::optional<OperationBoard::Wait> waiting_;  ///< what the coordinator waits for, if anything
    std::int64_t waiting_version_ = -1;
};

}  // namespace cohort
