#pragma once

#include <bit>
#include <concepts>
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
    void mix(std::integral auto value) noexcept {
        hash_ += static_cast<std::uint64_t>(value) + 0x9E3779B97F4A7C15U;
        hash_ = (hash_ ^ (hash_ >> 30U)) * 0xBF58476D1CE4E5B9U;
        hash_ = (hash_ ^ (hash_ >> 27U)) * 0x94D049BB133111EBU;
        hash_ ^= hash_ >> 31U;
    }
    [[nodiscard]] std::uint64_t digest() const noexcept { return hash_; }

private:
    std::uint64_t hash_ = 0;
};

/// Writes into the result of a virtual job what its course was.
class JobRecords final : public SessionObserver {
public:
    /// @param result  outlives it  @param records  iterations that are kept
    JobRecords(SimulationResult& result, std::size_t records);

    void timed(const IterationRecord& record);
    void settled(const PushOutcome& outcome) override;
    /// Switches, decisions, measured rates and stragglers that are complete.
    void collect(TrainingSession& session);

private:
    SimulationResult& result_;
    std::size_t most_records_;
};

/// The accuracy of a virtual job while it trains, and when it reaches its target. Evaluations take
/// no virtual time.
class VirtualEvaluations {
public:
    /// All of them outlive it.
    VirtualEvaluations(const JobSpec& spec, Learner& learner, EventLog& log,
                       SimulationResult& result)
        : spec_(spec),
          learner_(learner),
          log_(log),
          result_(result),
          next_(spec.eval_every_samples) {}

    /// An update was made; evaluates at the first update at or after each boundary.
    /// @return true when the parameters reach the target on the whole test set
    [[nodiscard]] bool updated(double now_s, std::int64_t samples_applied);
    /// The job is over: its last parameters are evaluated on the whole test set.
    void end();

private:
    double evaluate(std::int64_t samples);

    const JobSpec& spec_;
    Learner& learner_;
    EventLog& log_;
    SimulationResult& result_;
    std::int64_t next_;
    double updated_s_ = 0;  ///< time of the last update
    std::int64_t samples_applied_ = 0;
    bool whole_ = false;  ///< the whole test set has been evaluated at samples_applied_
};

/// Writes into the result of a virtual job what each worker spent its time and the cluster's
/// resources on.
class WorkerLanes {
public:
    /// @param result  outlives it  @param most spans that are kept, the first ones
    WorkerLanes(SimulationResult& result, int workers, std::size_t most);

    /// Spans without length are left out.
    void span(int worker, LaneSpan::Kind kind, double begin_s, double end_s);
    void used(int worker, double cpu_core_s, double bytes);

private:
    SimulationResult& result_;
    std::size_t most_;
};

}  // namespace cohort
