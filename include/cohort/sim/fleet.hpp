#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/statistics.hpp"
#include "cohort/core/words.hpp"
#include "cohort/sched/fleet_rules.hpp"
#include "cohort/sched/target.hpp"
#include "cohort/sim/simulation.hpp"

// Many jobs on one virtual cluster: stragglers come from the processors and network cards that jobs
// share. docs/fleet.md describes file, rules and results.
namespace cohort {

/// Jobs that are drawn at random. Each number has a stream of its own per job: another rate changes
/// no size, length or workload.
struct FleetArrivals {
    int jobs = 0;
    double per_hour = 0;                 ///< rate of a Poisson process, > 0
    std::vector<int> workers;            ///< possible sizes; not empty
    std::vector<int> servers;            ///< of a job of each size; empty: as the defaults say
    std::vector<double> weights;         ///< of each size; empty: all the same
    double length_sigma = 0;             ///< standard deviation of the logarithm of a length
    double length_most = 10;             ///< lengths beyond it are cut to it
    std::vector<std::string> workloads;  ///< each as likely; not empty
    std::uint64_t seed = 1;
};

struct DrawnJob {
    double arrival_s = 0;
    int workers = 1;
    std::optional<int> servers;
    double length = 1;  ///< times the budget of samples; median 1, lognormal
    std::string workload;
    std::uint64_t seed = 1;  ///< of the job
};
/// In order of arrival. Pure: the same arrivals give the same jobs.
[[nodiscard]] std::vector<DrawnJob> draw_arrivals(const FleetArrivals& arrivals);

struct FleetJob {
    std::string name;
    std::string place;  ///< in the file, for messages
    double arrival_s = 0;
    SimulateOptions options;  ///< checked; nodes, pattern, profile and threads do not count
};

/// A key of [real]: an option that only jobs on real ranks have. Not checked here.
struct RealOption {
    std::string key;
    std::string text;   ///< its value as the command line writes it
    std::string place;  ///< in the file, for messages
};

/// A file of jobs, understood.
struct FleetPlan {
    std::string file;
    std::string profile = "8gpu-10g";
    int nodes = 8;
    int devices_per_node = 0;  ///< 0: the profile's
    PlacementRule server_placement = PlacementRule::kWaits;
    RoomRule make_room = RoomRule::kOff;
    std::uint64_t seed = 1;        ///< of the drawn jobs
    std::string label;             ///< of the result, for comparisons
    int threads = 0;               ///< that compute gradients of all jobs; 0: all cores
    bool alone = true;             ///< measures the pace of each job without the others, too
    std::vector<FleetJob> jobs;    ///< in order of arrival, ties as in the file
    std::vector<RealOption> real;  ///< for all jobs
    /// All keys of [cluster], [fleet], [defaults], [arrivals] and [real] in force: "fleet.label"
    /// and so on.
    std::vector<std::pair<std::string, std::string>> settings;
};

/// Reads and checks a file. @param overrides "TABLE.KEY=VALUE", in place of the file's
/// Errors: UsageError naming file, line, job and key, or --set; FileError for a file that cannot be
/// read.
[[nodiscard]] FleetPlan read_fleet(const std::string& file,
                                   const std::vector<std::string>& overrides);

/// What became of a job.
enum class FleetJobState : std::uint8_t {
    kTarget,   ///< reached its target accuracy
    kBudget,   ///< used up its samples
    kFailed,   ///< an error, or numbers that are not finite; see FleetJobResult::error
    kStopped,  ///< the fleet was stopped while it ran
    kWaiting   ///< the fleet was stopped before it started
};
template <>
inline constexpr auto kWords<FleetJobState> =
    std::to_array<std::string_view>({"target", "budget", "failed", "stopped", "waiting"});

struct FleetJobResult {
    std::string name;
    std::string workload;
    std::string model;
    std::string arch;
    std::string mode;
    int workers = 0;
    int servers = 0;
    std::uint64_t seed = 0;
    double target_accuracy = 0;  ///< 0: none
    double target_loss = 0;      ///< 0: none
    FleetJobState state = FleetJobState::kWaiting;
    std::string error;
    // Seconds of the clock, virtual or real, since the fleet began; none: it never came so far.
    double arrival_s = 0;
    std::optional<double> start_s;
    std::optional<double> end_s;
    std::optional<double> target_s;  ///< when it reached its target
    std::vector<int> worker_nodes;   ///< [workers]
    std::vector<int> server_nodes;   ///< [servers]
    std::int64_t samples = 0;
    std::int64_t updates = 0;
    std::int64_t switches = 0;  ///< of the plan
    double accuracy = 0;        ///< on the whole test set, at the end; of a regression R2
    double busy_s = 0;          ///< of all workers together: computing
    double wait_s = 0;          ///< the same: waiting for others
    /// Samples/s of the same job in the same mode on the same nodes without other jobs; none: not
    /// run.
    std::optional<double> alone_samples_s;
    // Of grants; none: no room is made.
    std::optional<std::int64_t> grants;  ///< that it was given
    /// Seconds of its pace alone that grants brought it, and that it gave to those of others, as
    /// predicted.
    std::optional<double> room_taken_s;
    std::optional<double> room_given_s;
    std::uint64_t digest = 0;

    /// Reached its target or used up its samples.
    [[nodiscard]] bool ended() const noexcept {
        return state == FleetJobState::kTarget || state == FleetJobState::kBudget;
    }
    [[nodiscard]] bool missed() const noexcept { return has_target(*this) && !target_s; }
    /// Seconds since its arrival. None: it has not ended.
    [[nodiscard]] std::optional<double> completion_s() const {
        return ended() && end_s ? std::optional(*end_s - arrival_s) : std::nullopt;
    }
    /// The same until the target was reached; for a job that missed it its completion, which is a
    /// lower bound. None: it had no target, or has not ended.
    [[nodiscard]] std::optional<double> tta_s() const;
    /// Pace alone over pace among the others: 2 is twice as slow; none: no pace alone.
    [[nodiscard]] std::optional<double> slowdown() const;
};

/// Room that others made for a job. Seconds are those of a job's pace alone, as predicted.
struct FleetGrant {
    int job = 0;        ///< index in FleetResult::jobs
    double from_s = 0;  ///< of the virtual clock
    double to_s = 0;
    double weight = 1;              ///< of its transfers, the largest
    double gained_s = 0;            ///< what it brought the job
    std::map<int, double> given_s;  ///< what it took, by job; below 0: that job gained as well
};

/// A plan that a job's chooser wanted and did not get, since it would have cost the others more
/// than it would have brought.
struct FleetRefusal {
    int job = 0;      ///< index in FleetResult::jobs
    double at_s = 0;  ///< of the virtual clock; the first time, as are gain and losses
    std::string from;
    std::string to;
    double gain = 0;               ///< predicted, 1: its progress alone under the present plan
    std::map<int, double> losses;  ///< predicted, of relative progress, by job
    std::int64_t times = 1;        ///< that it was refused, once between two reviews at most
};

/// Grants over a whole run (RoomLedger::Counts).
struct FleetGrants {
    std::int64_t granted = 0;
    std::int64_t refused =
        0;  ///< doublings of a weight that would have cost more than they brought
    std::int64_t returned = 0;          ///< ended with their job or its plan, or by a review
    std::vector<FleetGrant> list = {};  ///< in the order of their ends
    std::vector<FleetRefusal> refused_plans = {};
};

/// How busy each node was between the point before and this one, as shares 0..1 of what it has.
struct FleetUsePoint {
    double time_s = 0;            ///< end of the time that it is about
    std::vector<double> devices;  ///< held by jobs, [nodes]
    std::vector<double> cores;
    std::vector<double> rx;  ///< network card, inwards
    std::vector<double> tx;
};

/// What is known of a job before it starts.
[[nodiscard]] FleetJobResult planned(const FleetJob& job);

struct FleetResult {
    bool real = false;  ///< of real ranks: seconds are the wall's, cores and cards not measured
    std::string label;
    std::string file;
    std::vector<std::pair<std::string, std::string>> settings;  ///< FleetPlan::settings
    int nodes = 0;
    int devices_per_node = 0;
    std::uint64_t seed = 0;  ///< of the drawn jobs
    bool stopped = false;    ///< by a signal
    std::vector<FleetJobResult> jobs;
    std::vector<FleetUsePoint> use;  ///< at most kUsePoints
    static constexpr std::size_t kUsePoints = 400;
    std::optional<FleetGrants> grants;  ///< none: no room is made
    double makespan_s = 0;              ///< end of the last job
    std::uint64_t events = 0;
    std::uint64_t digest = 0;  ///< over all jobs
    // Of the real clock; not part of the digest.
    double wall_s = 0;
    std::uint64_t peak_bytes = 0;
};

/// Mean, middle and tail of some values.
struct Distribution {
    std::size_t count = 0;
    double mean = 0;
    double median = 0;
    double p95 = 0;
    double p99 = 0;
};

/// What a fleet comes to.
struct FleetSummary {
    std::size_t ended = 0;  ///< jobs that reached their target or used up their samples
    std::size_t failed = 0;
    std::size_t missed = 0;  ///< of `ended`: with a target that they did not reach
    // Over `ended`, seconds.
    Distribution tta;             ///< FleetJobResult::tta_s, of those with a target
    Distribution tta_from_start;  ///< the same from the job's start
    Distribution completion;
    Distribution slowdown;  ///< over those with a pace alone
    // Shares 0..1 over all nodes until the last job ends.
    double devices = 0;
    double cores = 0;
    double network = 0;  ///< both directions
    double waiting = 0;  ///< of the workers' time: lost to waiting for others
};
[[nodiscard]] FleetSummary summarise(const FleetResult& result);

/// Of the program: 75 for a fleet that was stopped, else 100 + its failed jobs, 120 at most, else
/// 0.
[[nodiscard]] ExitCode fleet_exit_code(const FleetResult& result);

/// Where a fleet stands.
struct FleetProgress {
    double virtual_s = 0;
    std::uint64_t events = 0;
    std::size_t jobs = 0;
    std::size_t arrived = 0;
    std::size_t running = 0;
    std::size_t over = 0;
    std::size_t failed = 0;                 ///< of those that are over
    std::size_t alone = 0;                  ///< jobs whose pace alone is known, which comes last
    const FleetJobResult* ended = nullptr;  ///< news: a job that is over
};

/// Runs all jobs in this thread (gradients on others). Deterministic: two runs have the same
/// digest, whatever the number of threads.
/// @param progress called about every thousand events and when a job is over; true: stop
/// Errors: UsageError and FileError, before anything runs; a job that fails later ends alone.
[[nodiscard]] FleetResult run_fleet(const FleetPlan& plan,
                                    const std::function<bool(const FleetProgress&)>& progress);

/// What fleets of one label do to the same jobs, relative to the first label.
struct FleetComparison {
    std::string label;
    std::size_t pairs = 0;   ///< jobs that ended (summarise) in both
    std::size_t seeds = 0;   ///< of the draws
    std::size_t missed = 0;  ///< of the pairs' jobs of this label: TTA is a lower bound
    /// Mean over the mean of the first label: 0.5 is half the time; 0: no pair. Clusters of the
    /// interval are seeds; with one seed its jobs, as if they did not depend on each other.
    Interval tta;  ///< of pairs with a target
    Interval completion;
};
/// Pairs jobs of the same seed and name. In the order in which labels come first; the first one's
/// ratios are 1. Pure. Errors: UsageError for two results of one label and seed.
[[nodiscard]] std::vector<FleetComparison> compare_fleets(const std::vector<FleetResult>& results);

/// Name of the result's file in a folder.
inline constexpr const char* kFleetFile = "fleet.json";
/// As check_result_folder.
void check_fleet_folder(const std::string& folder, bool overwrite);
/// Writes kFleetFile in a folder, which is made when it is missing, at once or not at all.
/// Errors: FileError.
void write_fleet(const std::string& folder, const FleetResult& result);
/// Errors: FileError naming the file and what is wrong with it.
[[nodiscard]] FleetResult read_fleet_result(const std::string& file);
/// The result in a file is one of this fleet. Errors: UsageError with the first setting that
/// differs.
void check_same_fleet(const FleetResult& found, const FleetPlan& plan, bool real,
                      const std::string& file);

}  // namespace cohort
