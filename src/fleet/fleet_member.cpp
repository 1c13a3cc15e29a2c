// A rank that is lent to one job after another.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/train/trainer.hpp"
#include "core/bytes.hpp"
#include "core/log_name.hpp"
#include "core/scores.hpp"
#include "fleet/fleet_messages.hpp"
#include "fleet/job_room.hpp"
#include "fleet/real_fleet.hpp"

namespace cohort {
namespace {

constexpr Clock::Seconds kLong = std::chrono::hours(1);

/// How many ranks of a map, from `first` on, run on the cores of this one.
int sharing_cores(const RankMap& map, int rank, int first) {
    const RankInfo& self = map.ranks[static_cast<std::size_t>(rank)];
    const auto count = std::ranges::count_if(map.ranks, [&](const RankInfo& other) {
        return other.rank >= first && other.node == self.node && other.cores == self.cores;
    });
    return std::max(1, static_cast<int>(count));
}

FleetJobState state_of(const TrainSummary& summary) {
    switch (summary.reason) {
        case StopReason::kTarget: return FleetJobState::kTarget;
        case StopReason::kSignal: return FleetJobState::kStopped;
        default: return FleetJobState::kBudget;
    }
}

void keep_summary(FleetReport& report, const TrainSummary& summary, const TrainOptions& options) {
    const double steps =
        summary.samples_per_s * summary.part_s / static_cast<double>(options.batch);
    report.state = state_of(summary);
    report.samples = summary.progress.samples_applied;
    report.updates = summary.progress.updates;
    report.switches = summary.switches;
    const EvaluationReport test = summary.test.value_or(EvaluationReport());
    report.accuracy =
        summary.task == Task::kRegression && summary.test ? r_squared(test.loss) : test.accuracy;
    report.busy_s = summary.compute_s * steps;
    report.wait_s = summary.exposed_s * steps;
    if (!summary.outputs_saved) {
        report.state = FleetJobState::kFailed;
        report.error = "some results could not be saved, see the log";
    }
}

/// Ranks of the pool that a job has lost.
std::vector<std::int32_t> lost_ranks(World& world, const std::vector<std::int32_t>& of_pool) {
    std::vector<std::int32_t> lost;
    for (int rank = 0; rank < world.map().size(); ++rank) {
        if (world.membership().excluded(rank)) {
            lost.push_back(of_pool[static_cast<std::size_t>(rank)]);
        }
    }
    return lost;
}

/// MPI may still write into the buffers of a World that has lost ranks, so it stays until the
/// process ends.
void keep(std::unique_ptr<World> world) {
    static std::vector<std::unique_ptr<World>> kept;
    kept.push_back(std::move(world));
}

RealJob real_job(const RankPool& pool, const RealFleet& fleet, const FleetOrder& order) {
    RealJob job{.number = order.job,
                .worker_nodes = {},
                .server_nodes = {},
                .nodes = pool.map().nodes(),
                .cores = static_cast<double>(fleet.cores),
                .card_bytes_s = fleet.card_bytes_s};
    const auto servers = static_cast<std::size_t>(fleet.jobs[order.job].servers);
    for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
        const auto of_pool = static_cast<std::size_t>(order.ranks[rank]);
        (rank < servers ? job.server_nodes : job.worker_nodes)
            .push_back(pool.map().ranks[of_pool].node);
    }
    return job;
}

/// A message that reaches a rank at work.
void obey(RankPool& pool, std::uint64_t job, JobRoom& room, const RankPool::Message& message) {
    const auto order = decode<FleetOrder>(message.body);
    if (order.job != job) {
        return;  // for one that has ended
    }
    if (order.weight > 0) {
        pool.set_weight(order.weight);
    } else {
        room.answered(order.plan, order.fits);
    }
}

/// Takes part in a job from its start to its end. An error of the job on which its ranks agree is
/// reported; any other ends the processes of all its ranks.
FleetReport take_part(RankPool& pool, const RealFleet& fleet, const FleetOrder& order) {
    TrainOptions options = fleet.jobs[order.job];
    options.resume = order.resume;
    options.overwrite = options.overwrite && !order.resume;
    FleetReport report{.job = order.job};
    TrainEnvironment environment;
    JobRoom room(real_job(pool, fleet, order), *environment.clock);
    pool.set_weight(1);
    std::unique_ptr<World> world;
    const auto tell_end = [&pool, &order](const std::string& reason) {
        pool.send(0, encode(FleetReport{.job = order.job, .gone = true, .error = reason}));
    };
    try {
        world = std::make_unique<World>(
            WorldOptions{.servers = options.servers,
                         .stall_limit_s = options.stall_limit_s,
                         .lost_after_s = options.lost_after_s,
                         .chunk_bytes = options.chunk_bytes,
                         .device = options.device,
                         .server_device = options.server_device,
                         .part = PoolPart{.pool = &pool,
                                          .ranks = order.ranks,
                                          .number = order.number,
                                          .ends = tell_end,
                                          .received = [&](const RankPool::Message& message) {
                                              obey(pool, order.job, room, message);
                                          }}});
        report.speaks = world->rank() == 0;
        environment.stop_requested = fleet.stop_requested;
        environment.world = &*world;
        environment.tuning_file = fleet.tuning_file;
        // Ranks of other jobs have their share of the cores: Trainer divides among this job's.
        environment.cores =
            std::max(1, fleet.cores * sharing_cores(world->map(), world->rank(), options.servers) /
                            sharing_cores(pool.map(), pool.rank(), 1));
        if (fleet.card_bytes_s > 0) {
            environment.observer = [&room] { return room.observer(); };
            environment.admits = [&room](const SyncPlan& wanted, double worth) {
                return room.admits(wanted, worth);
            };
        }
        Trainer trainer(options, environment);
        room.begins(trainer.graph().parameters().total(),
                    [&world](FleetReport now) { world->tell_pool(0, encode(std::move(now))); });
        const TrainSummary summary = trainer.run();
        keep_summary(report, summary, options);
    } catch (const Error& error) {  // of this job, on all its ranks in order
        if (!world) {
            pool.abort(error.exit_code(), error.what());
        }
        report.error = error.what();
    } catch (...) {
        if (world) {
            world->abort(std::current_exception());
        }
        throw;
    }
    world->finalize();
    pool.set_weight(1);
    report.lost = lost_ranks(*world, order.ranks);
    if (world->left_mpi()) {
        keep(std::move(world));
    }
    return report;
}

}  // namespace

ExitCode serve_fleet(RankPool& pool, const RealFleet& fleet) {
    while (true) {
        const auto message = pool.receive(kLong);
        if (!message) {
            continue;
        }
        const auto order = decode<FleetOrder>(message->body);
        if (order.of_running_job()) {
            continue;  // for a job that has just ended here
        }
        const auto code = static_cast<ExitCode>(order.exit_code);
        if (order.ends && !order.started) {
            throw Error(code, "");
        }
        if (order.ends) {
            pool.finalize(order.lost);
            return code;
        }
        set_log_name(fmt::format("job '{}': ", fleet.plan.jobs[order.job].name));
        const FleetReport report = take_part(pool, fleet, order);
        set_log_name("");
        pool.send(message->from, encode(report));
    }
}

}  // namespace cohort
