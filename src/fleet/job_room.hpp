#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"
#include "fleet/fleet_messages.hpp"

namespace cohort {

/// What the needs of a real job follow from, apart from its plan and what is measured.
struct RealJob {
    std::uint64_t number = 0;       ///< index in the fleet
    std::vector<int> worker_nodes;  ///< hosts, [workers]
    std::vector<int> server_nodes;  ///< [servers]; empty with rings
    int nodes = 1;                  ///< hosts of the fleet
    double cores = 1;               ///< of a host
    double card_bytes_s = 1;        ///< of a host, in each direction
    double parameter_bytes = 0;
};

/// Seconds that workers compute for a mini-batch, input included.
struct ComputeTimes {
    double mean = 0;
    double slowest = 0;
};

/// Needs of a real job in closed form, as those of a virtual one (needs_of): hosts are nodes with
/// this card, a worker computes for as long as was measured: as the slowest one where a plan waits
/// for all, else as the mean.
/// @param compute  of options.batch samples, > 0
[[nodiscard]] JobNeeds real_needs(const RealJob& job, const TrainOptions& options,
                                  const ComputeTimes& compute, const SyncPlan& plan);

/// What a real job and the controller of its fleet say to each other, on the job's rank 0:
///  1. the job tells what it needs and how far it is: each second, and when its plan changes, as
///     soon as its workers' times are known (in a deterministic run they never are)
///  2. a chooser that wants another plan is refused while the job asks the controller about it
///  3. the answer holds for kHolds, or until the plan changes; then the next wish asks again
class JobRoom {
public:
    static constexpr Clock::Seconds kHolds{30};

    /// @param job  without its parameters  @param clock  outlives it
    JobRoom(RealJob job, const Clock& clock) : job_(std::move(job)), clock_(clock) {}

    /// Before the run. @param tell  sends to the controller, on the coordinator's thread
    void begins(std::int64_t parameters, std::function<void(FleetReport)> tell) {
        job_.parameter_bytes = static_cast<double>(parameters) * sizeof(float);
        tell_ = std::move(tell);
    }
    /// Calls look() after each update and change of the plan.
    [[nodiscard]] std::unique_ptr<TrainHook> observer();
    /// On the coordinator's thread. @param at_once  the plan has changed
    void look(const TrainControl& run, bool at_once);
    /// ModeSetting::admits, on the coordinator's thread. Before anything was told every plan fits.
    [[nodiscard]] bool admits(const SyncPlan& wanted, double worth);
    /// The controller says whether a plan fits; from any thread.
    void answered(const std::string& plan, bool fits);

private:
    struct Answer {
        std::optional<Clock::Seconds> asked;
        std::optional<bool> fits;
    };

    RealJob job_;
    const Clock& clock_;
    std::function<void(FleetReport)> tell_;
    std::optional<FleetReport> told_;  ///< last
    Clock::Seconds told_at_{0};
    ComputeTimes compute_;  ///< when it was told
    const TrainOptions* options_ = nullptr;
    std::mutex mutex_;
    std::map<std::string, Answer> answers_;  ///< by plan; under mutex_
};

}  // namespace cohort
