#pragma once

#include <cstdint>
#include <vector>

#include "cohort/sched/policy.hpp"
#include "cohort/sched/reports.hpp"

namespace cohort {

/// What each worker has done and how fast: for reports, and for those who choose modes. Pure.
class WorkerStats {
public:
    /// @param batch samples to which own times are scaled
    WorkerStats(int workers, std::int64_t batch);

    /// A push has arrived. @param own_s  the worker's own time for it (WorkerReport)
    void timed(int worker, std::int64_t samples, double own_s);
    void settled(const PushOutcome& outcome);
    void lost(int worker);
    void joined(int worker);

    /// By worker.
    [[nodiscard]] const std::vector<WorkerReport>& reports() const noexcept { return reports_; }
    /// Accepted, of all workers.
    [[nodiscard]] std::int64_t pushes() const noexcept { return pushes_; }
    /// Longest own time of the live workers, seconds; 0: none is known.
    [[nodiscard]] double slowest_own_s() const noexcept;

private:
    std::int64_t batch_;
    std::int64_t pushes_ = 0;
    std::vector<WorkerReport> reports_;
    std::vector<OwnTime> times_;
};

}  // namespace cohort
