#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "session/training_session.hpp"
#include "sim/job/job_spec.hpp"
#include "sim/learner/learner.hpp"

namespace cohort {

/// A hash over all that happened in a run and when: two runs with the same one went the same way.
/// Each value is mixed in by the finaliser of splitmix64 (Steele et al. 2014).
class EventLog {
public:
    enum class Kind : std::uint8_t {
        kPush = 1,
        kFire,
        kRelease,
        kRefuse,
        kInterrupt,
        kReturn,
        kLease,
        kPlan,
        kEvaluation
    };

    template <class... Values>
    void add(Kind kind, double seconds, Values... values) noexcept {
        mix(static_cast<std::uint64_t>(kind));
        mix(seconds);
        (mix(values), ...);
    }
    void mix(double value) noexcept { mix(std::bit_cast<std::uint64_t>(value)); }
    void mix(std::int32_t value) noexcept { mix(static_cast<std::uint64_t>(value)); }
    void mix(std::int64_t value) noexcept { mix(static_cast<std::uint64_t>(value)); }
    void mix(std::uint64_t value) noexcept {
        hash_ += value + 0x9E3779B97F4A7C15U;
        hash_ = (hash_ ^ (hash_ >> 30U)) * 0xBF58476D1CE4E5B9U;
        hash_ = (hash_ ^ (hash_ >> 27U)) * 0x94D049BB133111EBU;
        hash_ ^= hash_ >> 31U;
    }
    [[nodiscard]] std::uint64_t digest() const noexcept { return hash_; }

private:
    std::uint64_t hash_ = 0;
};

/// What the result of a virtual job tells of its course.
class JobRecords final : public SessionObserver {
public:
    /// @param records  iterations that are kept
    explicit JobRecords(std::size_t records);

    void timed(const IterationRecord& record);
    void settled(const PushOutcome& outcome) override;
    /// Switches, decisions, measured rates and stragglers that are complete.
    void collect(TrainingSession& session);
    [[nodiscard]] const std::vector<SwitchReport>& switches() const noexcept { return switches_; }
    void report(SimulationResult& result) const;

private:
    std::size_t most_records_;
    std::vector<IterationRecord> records_;
    std::vector<SwitchReport> switches_;
    std::vector<DecisionRecord> decisions_;
    std::vector<RateWindow> windows_;
    std::vector<StragglerEpisode> stragglers_;
    std::vector<std::int64_t> lag_histogram_;
};

/// The accuracy of a virtual job while it trains, and when it reaches its target. Evaluations take
/// no virtual time.
class VirtualEvaluations {
public:
    /// All of them outlive it.
    VirtualEvaluations(const JobSpec& spec, Learner& learner, EventLog& log)
        : spec_(spec), learner_(learner), log_(log), next_(spec.eval_every_samples) {}

    /// An update was made; evaluates at the first update at or after each boundary.
    /// @return true when the parameters reach the target on the whole test set
    [[nodiscard]] bool updated(double now_s, std::int64_t samples_applied);
    /// The job is over: its last parameters are evaluated on the whole test set.
    void end();
    [[nodiscard]] const std::vector<EvaluationPoint>& points() const noexcept { return points_; }
    void report(SimulationResult& result) const;

private:
    double evaluate(std::int64_t samples);

    const JobSpec& spec_;
    Learner& learner_;
    EventLog& log_;
    std::int64_t next_;
    double updated_s_ = 0;  ///< time of the last update
    std::int64_t samples_applied_ = 0;
    std::optional<double> tta_s_;
    std::optional<std::int64_t> samples_to_target_;
    std::optional<Learner::Accuracy> last_;  ///< of the whole test set, at samples_applied_
    std::vector<EvaluationPoint> points_;
};

/// What each worker spent its time and the cluster's resources on. Pure.
class WorkerLanes {
public:
    struct Totals {
        double busy_s = 0;  ///< computing, input work included
        double wait_s = 0;  ///< for others
        double cpu_core_s = 0;
        double bytes = 0;  ///< sent and received
    };
    /// @param most spans that are kept, the first ones
    WorkerLanes(int workers, std::size_t most)
        : totals_(static_cast<std::size_t>(workers)), most_(most) {}

    /// Spans without length are left out.
    void span(int worker, LaneSpan::Kind kind, double begin_s, double end_s);
    void used(int worker, double cpu_core_s, double bytes);

    /// By worker.
    [[nodiscard]] const std::vector<Totals>& totals() const noexcept { return totals_; }
    [[nodiscard]] const std::vector<LaneSpan>& spans() const noexcept { return spans_; }

private:
    std::vector<Totals> totals_;
    std::size_t most_;
    std::vector<LaneSpan> spans_;
};

}  // namespace cohort
