#pragma once

#include <optional>
#include <vector>

#include "cohort/train/trainer.hpp"
#include "train/coordinator/lost_workers.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Which ranks take part in a run: who was lost or has returned, and who owes a final report.
class Roster {
public:
    /// @param max_lost  see LostWorkers
    Roster(CommContext comm, int max_lost);

    /// From now on the coordinator is sent RankNews of ranks that are lost or return.
    void watch();
    void stop_watching() const;
    /// A rank is lost: it is excluded from the job. False when that is known.
    [[nodiscard]] bool lost(int rank);
    /// A lost rank takes part again. False when it was not lost.
    [[nodiscard]] bool returned(int rank);
    /// What to tell people of a rank that was lost or returned.
    [[nodiscard]] RankReport report(const RankNews& news) const;
    [[nodiscard]] const LostWorkers& losses() const noexcept { return losses_; }
    /// All workers are told to stop. Nothing happens the second time.
    void stop_workers();
    [[nodiscard]] bool workers_stopped() const noexcept { return workers_stopped_; }

    /// A rank's final report.
    void reported(const Message& message);
    /// World ranks that have not sent theirs.
    [[nodiscard]] const std::vector<int>& at_work() const noexcept { return at_work_; }
    /// Processor time of the ranks that have reported; none: no one has.
    [[nodiscard]] std::optional<double> cpu_seconds() const;
    /// Fills in what losses and final reports tell.
    void summarize(TrainSummary& summary) const;

private:
    CommContext comm_;
    LostWorkers losses_;
    std::vector<int> at_work_;
    std::vector<Farewell> reports_;
    bool workers_stopped_ = false;
};

}  // namespace cohort
