#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/sched/drop_record.hpp"
#include "cohort/sched/reports.hpp"
#include "cohort/sched/update_engine.hpp"
#include "sched/session/gradient_statistics.hpp"
#include "sched/session/lease_dispatcher.hpp"
#include "sched/session/load_monitor.hpp"
#include "sched/session/mode_controller.hpp"

namespace cohort {

/// The time as whoever drives a session sees it.
struct SessionTime {
    double training_s = 0;      ///< of training, without pauses for evaluations
    Clock::Seconds clock_s{0};  ///< with them
};

/// Is told what the engine decides and what becomes of a session's pushes, plans and measurements.
/// The defaults do nothing.
class SessionObserver {
public:
    virtual ~SessionObserver() = default;
    /// The effect is about to be carried out.
    virtual void decided(const Effect& /*effect*/) {}
    virtual void settled(const PushOutcome& /*outcome*/) {}
    virtual void installed(const SyncPlan& /*plan*/) {}
    virtual void measured(const GradientFacts& /*facts*/) {}
};

struct SessionOptions {
    int workers = 1;
    std::int64_t batch = 1;
    std::int64_t reference_batch = 1;  ///< B, samples
    std::int64_t budget_samples = 0;
    double noise_scale = 0;          ///< phi, samples; 0: measured where a plan needs it
    bool measure_gradients = false;  ///< whatever the mode
    /// In updates, of gradients and deltas alike: a plan's weights are for servers.
    bool only_samples_weigh = false;
    /// Servers: LearningOptions::clip_norm, of each push; a ring clips the mean itself.
    double clip_norm = 0;
    bool monitor_load = true;  ///< false: nothing depends on times, the run can be repeated
    /// The learning rate after so many samples, before a plan's own scale.
    std::function<double(std::int64_t samples)> learning_rate;
    std::function<SessionTime()> now;
    /// Makes what forecasts come from, when a mode looks at some. Empty: there are none.
    std::function<std::unique_ptr<Predictor>()> predictor;
    SessionObserver* observer = nullptr;  ///< outlives the session; null: nobody
};

/// Where a session goes on from: the start, or a checkpoint.
struct SessionCounts {
    std::int64_t samples_applied = 0;
    std::int64_t updates = 0;
    std::int64_t version = 0;
    double reference_batches = 0;
    DropRecord drops;
};

/// A training run as its rules see it, whether its workers are real or virtual and however their
/// gradients travel: the mode and its plan, the engine that interprets the plan, leases, and what
/// is measured of workers and gradients. Whoever drives it tells it what has happened. Pure: it
/// knows neither messages nor files, and asks SessionOptions::now for the time.
class TrainingSession {
public:
    /// @param modes  has not been started  @param start  samples_applied etc. to go on from
    /// Errors: UsageError when the first plan does not fit.
    TrainingSession(SessionOptions options, ModeController modes, LeaseLedger ledger,
                    const SampleAccounts& earlier, SessionCounts start);
    TrainingSession(const TrainingSession&) = delete;
    TrainingSession& operator=(const TrainingSession&) = delete;
    ~TrainingSession() = default;

    [[nodiscard]] UpdateEngine& engine() noexcept { return engine_; }
    [[nodiscard]] const UpdateEngine& engine() const noexcept { return engine_; }
    [[nodiscard]] LeaseDispatcher& leases() noexcept { return leases_; }
    [[nodiscard]] ModeController& modes() noexcept { return modes_; }
    [[nodiscard]] GradientMeasurement& gradients() noexcept { return gradients_; }
    [[nodiscard]] WorkerStats& workers() noexcept { return workers_; }
    /// Null: no times are looked at, see SessionOptions::monitor_load.
    [[nodiscard]] LoadMonitor* load() noexcept { return load_.get(); }
    [[nodiscard]] const SessionCounts& counts() const noexcept { return counts_; }
    [[nodiscard]] const SessionOptions& options() const noexcept { return options_; }

    /// No new work is given out any more: the budget is used up, or stop() was called.
    [[nodiscard]] bool stopping() const noexcept {
        return stop_ || leases_.open().ledger().finished();
    }
    void stop() noexcept { stop_ = true; }
    /// For the next update. @param scale  SyncPlan::lr_scale
    [[nodiscard]] double learning_rate(double scale) const {
        return scale * options_.learning_rate(counts_.samples_applied);
    }

    /// An iteration is over. Fills in when the record arrived, and its lag.
    /// @param own_s  the worker's own time for it (WorkerReport)
    void iteration_timed(IterationRecord& record, double own_s);

    /// An update was made: counts it, and its pushes.
    void updated(const Fire& fire);
    /// What became of a push.
    void settled(const PushOutcome& outcome);
    /// A push of so many samples was applied, and its update is lost. The count of updates stays,
    /// as versions do.
    void undone(int worker, std::int64_t samples);
    /// A mini-batch or round is not used because its numbers are not finite.
    void dropped() { counts_.drops.dropped(counts_.updates); }

    /// The engine's plan is in force.
    void installed();
    /// A worker was lost, or has joined again: its times are forgotten. The caller also requests a
    /// consultation (ModeConsultation::request()).
    void set_live(int worker, bool live);
    /// The run is over.
    void end();

private:
    SessionOptions options_;
    ModeController modes_;
    UpdateEngine engine_;
    LeaseDispatcher leases_;
    WorkerStats workers_;
    std::unique_ptr<LoadMonitor> load_;
    GradientMeasurement gradients_;
    SessionCounts counts_;
    bool stop_ = false;
};

/// Asks the mode in charge of a session what comes next, when there is something new or the mode
/// wished to be asked. Pure.
class ModeConsultation {
public:
    /// @param session  outlives it
    explicit ModeConsultation(TrainingSession& session)
        : session_(session), updates_(session.counts().updates) {}
    ModeConsultation(const ModeConsultation&) = delete;
    ModeConsultation& operator=(const ModeConsultation&) = delete;
    virtual ~ModeConsultation() = default;

    /// When the mode wants to be asked although no update was made, seconds of training.
    [[nodiscard]] std::optional<double> wake_at() const;
    /// An update was made, or a request, since the last consult().
    [[nodiscard]] bool has_news() const {
        return requested_ || updates_ != session_.counts().updates;
    }
    /// Asks the mode, if there is something new that it wants to look at. @param due  it is
    /// wake_at()
    [[nodiscard]] std::optional<PlanChange> consult(bool due);
    /// The mode is asked at the next consult(): workers were lost or have joined.
    void request() noexcept { requested_ = true; }
    /// The next consult() puts another mode in charge. Errors: as ModeController::request.
    void request(const std::string& mode);

protected:
    [[nodiscard]] TrainingSession& session() const noexcept { return session_; }
    /// Makes the forecasts that the mode in charge looks at, from its first question on. Called
    /// before each question.
    virtual void keep_forecasts();

private:
    TrainingSession& session_;
    std::int64_t updates_;    ///< at the last consult()
    bool requested_ = false;  ///< since then
};

}  // namespace cohort
