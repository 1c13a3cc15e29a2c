#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/train/trainer.hpp"
#include "core/system/run_lock.hpp"
#include "session/training_session.hpp"
#include "train/coordinator/checkpoint_coordinator.hpp"
#include "train/coordinator/control_server.hpp"
#include "train/coordinator/evaluation_tracker.hpp"
#include "train/coordinator/gathering.hpp"
#include "train/coordinator/modes/mode_consultation.hpp"
#include "train/coordinator/roster.hpp"
#include "train/coordinator/run_reporter.hpp"
#include "train/coordinator/run_wait.hpp"
#include "train/coordinator/snapshot_evaluator.hpp"
#include "train/coordinator/update_driver.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// Owns a run: the mode, its plan and engine, the leases, evaluations, checkpoints, metrics, who
/// takes part, and when it ends. Lives on a thread of rank 0 and is told of everything by messages
/// (protocol.hpp).
class Coordinator final : private UpdateObserver {
public:
    /// @param comm, parts, environment outlive it  @param device described in the metrics
    /// To be made before anybody can send to the coordinator's port.
    Coordinator(CommContext comm, JobContext& parts, const TrainEnvironment& environment,
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

private:
    // UpdateObserver
    [[nodiscard]] TrainingSession& session() override { return *session_; }
    [[nodiscard]] UpdateExtras decide(std::int64_t samples) override;
    void updated(const UpdateOrder& update) override;
    void taken(const UpdateExtras& extras, int evaluation_parts) override;
    void drop(const BatchResult& result, const std::string& because) override;
    void spent(double compute_s, double exposed_s, double exchange_s) override;
    void timed(const IterationRecord& measured) override;

    void fail_run(const std::exception& error, ExitCode code);

    // The run, in the order of its steps.
    void begin();
    BeginOrder restore();
    void open_session(const LeaseState& leases, const SampleAccounts& accounts,
                      const SessionCounts& start);
    [[nodiscard]] bool stopping() const { return stop_ || session_->stopping(); }
    void listen();
    void train();
    void finish();
    void final_evaluation();
    [[nodiscard]] std::vector<int> evaluators_missing() const;
    void final_checkpoint();
    void dismiss();
    [[nodiscard]] bool await_final_reports();
    [[nodiscard]] TrainSummary summarize();

    // Modes, workers that come and go, requests.
    [[nodiscard]] const TrainOptions& options() const { return parts_.options; }
    void request_stop(StopReason reason);
    [[nodiscard]] std::optional<double> wake_s() const;
    void consult_modes();
    void rank_news(const RankNews& news);
    void lost(const RankNews& news);
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
    void handle(const Message& message);
    void stop_requested(const StopRequest& request);
    void gathered(const Gathered& snapshot);
    void evaluated(const EvaluationReport& report);
    [[nodiscard]] SnapshotEvaluator& evaluator();
    [[nodiscard]] RunSnapshot run_snapshot();
    void save_model(const Gathered& snapshot);
    /// The error of cancel(); null: none.
    [[nodiscard]] std::exception_ptr cancelled();
    void check_cancelled();

    CommContext comm_;
    JobContext& parts_;
    const TrainEnvironment& environment_;
    std::string device_;
    bool sleeps_;  ///< --compute: there is nothing to evaluate and no model
    std::vector<ShardRange> shards_;
    Gathering gathering_;
    std::optional<TrainingSession> session_;
    std::unique_ptr<UpdateDriver> flow_;
    bool flow_begun_ = false;  ///< the roles have been told to begin
    bool training_ = false;    ///< updates are waited for

    std::optional<RunLock> lock_;  ///< on the output folder
    std::atomic<bool> owns_folder_{false};
    std::optional<ModeConsultation> consultation_;
    Roster roster_;
    RunReporter reporter_;
    RunWait wait_;
    std::optional<ControlServer> control_;
    std::optional<EvaluationTracker> evaluations_;
    std::optional<CheckpointCoordinator> checkpoints_;
    std::unique_ptr<SnapshotEvaluator> evaluator_;  ///< once a mode that does not wait needed it
    std::optional<StopReason> stop_;
    std::string failure_;            ///< of a worker's device, that ends the run
    std::optional<Gathered> model_;  ///< parameters of the end
    struct Spent {
        std::int64_t batches = 0;
        double compute_s = 0;
        double exposed_s = 0;
        double exchange_s = 0;
    } spent_;
    bool outputs_saved_ = true;

    std::mutex mutex_;  ///< of cancelled_
    std::exception_ptr cancelled_;
};

}  // namespace cohort
