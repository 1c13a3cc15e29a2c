#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "session/training_session.hpp"

namespace cohort {

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

}  // namespace cohort
