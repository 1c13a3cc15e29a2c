#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cohort/train/trainer.hpp"
#include "train/coordinator/cancellation.hpp"
#include "train/coordinator/gathering.hpp"
#include "train/coordinator/owned_folder.hpp"
#include "train/coordinator/roster.hpp"
#include "train/coordinator/run_requests.hpp"
#include "train/coordinator/run_start.hpp"
#include "train/coordinator/run_wait.hpp"
#include "train/coordinator/update_recorder.hpp"

namespace cohort {

/// Conducts a run from its start to its end, on a thread of rank 0, and is told of everything by
/// messages (protocol.hpp). What the run keeps and who drives its updates: see Active.
class Coordinator final {
public:
    /// @param comm, parts, environment outlive it  @param device described in the metrics
    /// To be made before anybody can send to the coordinator's port.
    Coordinator(CommContext comm, JobContext& parts, const TrainEnvironment& environment,
                std::string device);
    Coordinator(const Coordinator&) = delete;
    Coordinator& operator=(const Coordinator&) = delete;
    ~Coordinator();

    /// The whole run, once. Errors: NumericalError when training diverged; PeerError when too many
    /// workers were lost; FileError; whatever cancel() was told. All roles that are left have
    /// stopped then, unless they had failed.
    TrainSummary run();
    [[nodiscard]] const OwnedFolder& folder() const noexcept { return folder_; }
    /// A role on this rank has failed: run() ends with its error within a tick. From any thread.
    void cancel(std::exception_ptr error) { cancellation_.set(std::move(error)); }

private:
    /// What there is once the run has begun.
    struct Active {
        Active(OpenedSession opened, CommContext comm, JobContext& parts, RunReporter& reporter,
               Cancellation& cancellation, std::function<void()> stop);

        /// Seconds until whoever chooses the mode wants to be asked without an update.
        [[nodiscard]] std::optional<double> wake_s() const;
        /// Asks it, once an update was made, workers came or went, or it is time.
        void consult_modes(RunReporter& reporter);

        std::unique_ptr<TrainingSession> session;
        RefinedConsultation consultation;
        RunEvaluations evaluations;
        CheckpointCoordinator checkpoints;
        MirrorCoordinator mirrors;
        UpdateRecorder recorder;
        RunRequests requests;
        std::unique_ptr<UpdateDriver> driver;
        bool roles_begun = false;  ///< they have been told to begin
    };
    /// How the run ends.
    struct End {
        std::optional<StopReason> reason;
        std::string failure;  ///< of a worker's device or of the folder's files, that ends the run
        ExitCode failure_code = ExitCode::kDevice;
        std::optional<Gathered> model;  ///< the final parameters
        bool outputs_saved = true;
    };

    // The run, in the order of its steps.
    void begin();
    void train();
    void finish();
    void evaluate_at_end();
    void save_at_end();
    void dismiss_roles();
    [[nodiscard]] TrainSummary summarize();
    void fail_run(const std::exception& error, ExitCode code);

    /// Handles one message or none, and what is due.
    void step();
    void keep_folder(Clock::Seconds period);
    /// step() until `done` holds, as a named wait.
    template <class Done, class Missing>
    void wait_until(const char* name, WaitLimit limit, const Done& done, const Missing& missing);
    void handle(const Message& message);
    void request_stop(StopReason reason);

    // Workers that come and go.
    void lost(const RankNews& news);
    void returned(const RankNews& news);
    void lost_at_the_end(const RankNews& news);

    CommContext comm_;
    JobContext& parts_;
    const TrainEnvironment& environment_;
    std::string device_;
    Gathering gathering_;
    Roster roster_;
    RunReporter reporter_;
    RunWait wait_;
    OwnedFolder folder_;
    Cancellation cancellation_;
    std::optional<Active> active_;
    End end_;
};

}  // namespace cohort
