#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/sched/target.hpp"
#include "cohort/sim/simulation.hpp"
#include "sched/session/training_session.hpp"
#include "sim/cluster/event_queue.hpp"
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
        kEvaluation,
        kResize
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

/// Writes into log and result of a virtual job what its course was.
class JobRecords final : public SessionObserver {
public:
    /// The first three outlive it.
    /// @param clock  of the log  @param records  iterations that are kept
    JobRecords(SimulationResult& result, EventLog& log, const EventQueue& clock,
               std::size_t records)
        : result_(result), log_(log), clock_(clock), most_records_(records) {
        constexpr std::size_t kLagBatches = 16;  // that the histogram covers; more: its last bin
        result_.lag_histogram.assign(kLagBatches * SimulationResult::kLagBins + 1, 0);
    }

    void timed(const IterationRecord& record) {
        if (result_.records.size() < most_records_) {
            result_.records.push_back(record);
        }
    }

    void decided(const Effect& effect) override {
        const double now_s = clock_.now();
        using Kind = EventLog::Kind;
        if (const auto* fire = std::get_if<Fire>(&effect)) {
            log_.add(Kind::kFire, now_s, fire->version, fire->samples, fire->fraction);
            for (const FiredPush& push : fire->pushes) {
                log_.mix(push.ticket.lease);
                log_.mix(push.weight);
            }
        } else if (const auto* release = std::get_if<ReleaseOne>(&effect)) {
            log_.add(Kind::kRelease, now_s, release->worker, release->version, release->lag);
        } else if (const auto* refusal = std::get_if<Refuse>(&effect)) {
            log_.add(Kind::kRefuse, now_s, refusal->push.worker, refusal->push.sequence);
        } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
            log_.add(Kind::kInterrupt, now_s, interrupt->worker, interrupt->version);
        } else if (const auto* lease = std::get_if<ReturnLease>(&effect)) {
            log_.add(Kind::kReturn, now_s, lease->worker, lease->lease);
        }
    }

    void settled(const PushOutcome& outcome) override {
        if (!outcome.returned) {
            const double bin = outcome.lag * SimulationResult::kLagBins;
            const std::size_t last = result_.lag_histogram.size() - 1;
            ++result_.lag_histogram[bin < static_cast<double>(last) ? static_cast<std::size_t>(bin)
                                                                    : last];
        }
    }

    /// Switches, decisions, measured rates and stragglers that are complete.
    void collect(TrainingSession& session) {
        constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
        keep(result_.switches, kAll, session.modes().switches().take());
        keep(result_.decisions, SimulationResult::kDecisions, session.modes().decisions().take());
        keep(result_.windows, SimulationResult::kWindows, session.modes().take_windows());
        if (session.load() == nullptr) {
            return;
        }
        for (const StragglerNews::Item& news : session.load()->straggler_news().take()) {
            const bool over = news.kind != StragglerNews::Kind::kBegun;
            if (over && result_.stragglers.size() < SimulationResult::kStragglers) {
                result_.stragglers.push_back(news.episode);
            }
        }
    }

private:
    template <class Record>
    static void keep(std::vector<Record>& kept, std::size_t most, std::vector<Record> news) {
        for (Record& record : news) {
            if (kept.size() < most) {
                kept.push_back(std::move(record));
            }
        }
    }

    SimulationResult& result_;
    EventLog& log_;
    const EventQueue& clock_;
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
    [[nodiscard]] bool updated(double now_s, std::int64_t samples_applied) {
        constexpr double kNearTarget = 0.01;  // from here the whole test set decides
        updated_s_ = now_s;
        samples_applied_ = samples_applied;
        whole_ = false;
        const std::int64_t every = spec_.eval_every_samples;
        if (every <= 0 || samples_applied < next_) {
            return false;
        }
        next_ = (samples_applied / every + 1) * every;
        if (spec_.eval_samples > 0 && !evaluate(spec_.eval_samples, kNearTarget)) {
            return false;
        }
        return evaluate(0, 0);
    }

    /// The job is over: its last parameters are evaluated on the whole test set.
    void end() {
        if (spec_.eval_every_samples > 0 && !whole_) {
            (void)evaluate(0, 0);
        }
    }

private:
    /// The time to the target is the time of the first update that reaches it on the whole test
    /// set, also when that is found out at the end.
    /// @return whether what is to reach the target does, up to `slack`
    bool evaluate(std::int64_t samples, double slack) {
        const Learner::Accuracy found = learner_.evaluate(samples);
        EvaluationPoint point{.virtual_s = updated_s_,
                              .samples_applied = samples_applied_,
                              .accuracy = found.accuracy,
                              .loss = found.loss,
                              .test_samples = found.samples};
        log_.add(EventLog::Kind::kEvaluation, updated_s_, found.accuracy.value_or(0), found.loss,
                 found.samples);
        if (spec_.eval_average) {
            const Learner::Accuracy mean = learner_.evaluate_average(samples);
            point.average_accuracy = mean.accuracy;
            point.average_loss = mean.loss;
        }
        result_.evaluations.push_back(point);
        const bool average = spec_.target_on_average && point.average_loss;
        const bool reached =
            reaches_target(spec_, (average ? point.average_accuracy : found.accuracy).value_or(0),
                           average ? *point.average_loss : found.loss, slack);
        if (samples > 0) {
            return reached;
        }
        whole_ = true;
        result_.accuracy = found.accuracy;
        result_.loss = found.loss;
        if (reached && !result_.tta_virtual_s) {
            result_.tta_virtual_s = updated_s_;
            result_.samples_to_target = samples_applied_;
        }
        return reached;
    }

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
    /// @param result, timeline  outlive it; timeline may be null
    /// @param most spans that the result keeps, the first ones
    WorkerLanes(SimulationResult& result, RunTimeline* timeline, int workers, std::size_t most)
        : result_(result), timeline_(timeline), most_(most) {
        for (std::vector<double>* sums : {&result.worker_busy_s, &result.worker_wait_s,
                                          &result.worker_cpu_s, &result.worker_bytes}) {
            sums->assign(static_cast<std::size_t>(workers), 0);
        }
    }

    /// Spans without length are left out.
    void span(int worker, LaneSpan::Kind kind, double begin_s, double end_s) {
        if (end_s <= begin_s) {
            return;
        }
        const auto index = static_cast<std::size_t>(worker);
        if (kind == LaneSpan::Kind::kInput || kind == LaneSpan::Kind::kCompute) {
            result_.worker_busy_s.at(index) += end_s - begin_s;
        } else if (kind == LaneSpan::Kind::kWait) {
            result_.worker_wait_s.at(index) += end_s - begin_s;
        }
        if (timeline_ != nullptr) {
            static_assert(static_cast<int>(Activity::kLost) ==
                          static_cast<int>(LaneSpan::Kind::kLost));
            timeline_->activity(worker, static_cast<Activity>(kind), begin_s, end_s);
        }
        if (result_.lanes.size() < most_) {
            result_.lanes.push_back(
                {.worker = worker, .kind = kind, .begin_s = begin_s, .end_s = end_s});
        }
    }

    void used(int worker, double cpu_core_s, double bytes) {
        result_.worker_cpu_s.at(static_cast<std::size_t>(worker)) += cpu_core_s;
        result_.worker_bytes.at(static_cast<std::size_t>(worker)) += bytes;
    }

private:
    SimulationResult& result_;
    RunTimeline* timeline_;
    std::size_t most_;
};

}  // namespace cohort
