#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cohort/core/clock.hpp"
#include "core/system/run_lock.hpp"
#include "fleet/fleet_messages.hpp"
#include "fleet/real_fleet.hpp"
#include "fleet/real_room.hpp"
#include "sim/fleet/fleet_queue.hpp"

namespace cohort {

/// Lends the ranks 1.. of a pool to jobs, see real_fleet.hpp. One thread.
class FleetController {
public:
    /// Checks everything that can be checked before a job starts. Nodes of the queue are hosts,
    /// devices their ranks. Errors: UsageError and FileError.
    FleetController(RankPool& pool, const RealFleet& fleet);
    FleetController(const FleetController&) = delete;
    FleetController& operator=(const FleetController&) = delete;

    /// Once. Errors: FileError when the result cannot be written in the end; PeerError.
    [[nodiscard]] FleetResult run();
    /// After run(): ends the ranks that live, and the pool.
    void end_ranks(ExitCode code);

private:
    struct Running {
        std::vector<int> ranks;
        std::set<int> free;                    ///< of them: have reported
        std::set<int> gone;                    ///< their processes have ended or are about to
        FleetReport report;                    ///< of the job's rank 0, or why its processes end
        std::optional<double> ending_since_s;  ///< stopped, or its rank 0 is gone
    };

    struct Time {
        SteadyClock clock;
        Clock::Seconds begun = clock.now();
        double before_s = 0;  ///< of the parts before, when the fleet is resumed
    };

    void resume();
    /// Submits jobs that have arrived and starts those that may start.
    void look();
    void start(const FleetQueue::Start& order);
    void handle(int from, const FleetReport& report);
    void find_dead();
    void make_room();
    void give_up_the_silent(std::size_t job, Running& running);
    void lose(int rank);
    void give_up(std::size_t job);
    void end_if_over(std::size_t job);
    void end(std::size_t job, const Running& running);
    /// A point of FleetResult::use that ends now, before ranks change hands.
    void note_use();
    void write();
    [[nodiscard]] double now_s() const;

    RankPool& pool_;
    const RealFleet& fleet_;
    std::vector<std::vector<int>> free_;  ///< ranks that no job has, by node
    FleetQueue queue_;
    std::map<std::size_t, Running> running_;  ///< by job
    std::vector<std::size_t> coming_;         ///< jobs that have not arrived, the first one last
    RealRoom room_;
    FleetResult result_;
    Time time_;
    int started_ = 0;              ///< number of jobs
    std::optional<RunLock> lock_;  ///< keeps other fleets out of the folder
};

}  // namespace cohort
