#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "sim/job/event_log.hpp"
#include "sim/job/job_spec.hpp"
#include "sim/learner/learner.hpp"

namespace cohort {

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

}  // namespace cohort
