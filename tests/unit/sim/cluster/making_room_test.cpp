// What making room gains: predictions, grants and their limits compared with the fluid network on
// which the same jobs run side by side.
#include "sched/fleet/making_room.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "sched/fleet/contention.hpp"
#include "unit/sim/cluster/fluid_jobs.hpp"

namespace cohort {
namespace {

using test::FluidJob;
using test::FluidJobs;

constexpr double kSeconds = 300;

/// Jobs on nodes, with what each does alone.
struct Bench {
    Bench(std::vector<NodeCapacity> capacities, std::vector<FluidJob> fluid_jobs)
        : nodes(std::move(capacities)), jobs(std::move(fluid_jobs)) {
        for (const NodeCapacity& node : nodes) {
            rooms.push_back({.capacity = node});
        }
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            const FluidJob& job = jobs[i];
            alone.push_back(FluidJobs(nodes, {job}).run(kSeconds / 4).front());
            const auto servers = static_cast<double>(job.servers.size());
            JobDemand demand{.workers = {},
                             .shares = std::vector<double>(job.servers.size(), 1 / servers),
                             .push_bytes = job.bytes,
                             .pull_bytes = job.bytes,
                             .server_cores = job.server_core_s * alone.back(),
                             .server_threads = job.server_threads};
            for (const int node : job.workers) {
                demand.workers.push_back({.node = node, .iterations_s = alone.back()});
            }
            placed.push_back({demand, job.servers});
            askers.push_back({.id = static_cast<int>(i), .placed = placed.back()});
        }
    }

    /// Progress relative to alone, side by side.
    std::vector<double> run(const std::vector<double>& weights, std::uint64_t seed = 1) const {
        std::vector<FluidJob> weighted = jobs;
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            weighted[i].weight = weights[i];
        }
        std::vector<double> progress = FluidJobs(nodes, weighted, seed).run(kSeconds);
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            progress[i] /= alone[i];
        }
        return progress;
    }
    /// Weights after some reviews, each after the first with what the jobs did since the last one.
    std::vector<double> granted(RoomRule rule) const {
        constexpr int kReviews = 4;
        RoomLedger ledger(rule);
        std::vector<double> weights(jobs.size(), 1.0);
        std::vector<RoomJob> asking = askers;
        for (int i = 0; i < kReviews; ++i) {
            const std::vector<double> measured = run(weights, 100 + static_cast<std::uint64_t>(i));
            for (std::size_t job = 0; job < jobs.size(); ++job) {
                asking[job].measured = measured[job];
            }
            ledger.review(10 * i, rooms, asking);
            for (std::size_t job = 0; job < jobs.size(); ++job) {
                weights[job] = ledger.weight(asking[job].id);
            }
        }
        return weights;
    }
    std::vector<double> predicted(const std::vector<double>& weights) const {
        const ContentionModel::Solution solution = ContentionModel(rooms, placed).solve(weights);
        std::vector<double> progress;
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            progress.push_back(solution.progress(i));
        }
        return progress;
    }

    std::vector<NodeCapacity> nodes;
    std::vector<NodeRoom> rooms;
    std::vector<FluidJob> jobs;
    std::vector<double> alone;
    std::vector<PlacedJob> placed;
    std::vector<RoomJob> askers;
};

double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<NodeCapacity> cards(int count) {
    return std::vector<NodeCapacity>(static_cast<std::size_t>(count),
                                     {.cores = 8, .rx_bytes_s = 1, .tx_bytes_s = 1});
}

/// Jobs with one worker each, all their servers on one node. @param shares  of the node's card, in
/// both directions, that a job alone takes
Bench on_one_card(const std::vector<double>& shares) {
    std::vector<FluidJob> jobs;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const double period = 0.7 + 0.23 * static_cast<double>(i);  // no two are in step
        jobs.push_back({.workers = {static_cast<int>(i) + 1},
                        .servers = {0},
                        .compute_s = period * (1 - 2 * shares[i]),
                        .bytes = period * shares[i]});
    }
    return Bench(cards(static_cast<int>(shares.size()) + 1), jobs);
}

/// The largest sum of progress that a card allows: sum p_j u_j <= 1, those that need least first.
double ideal(std::vector<double> shares) {
    std::ranges::sort(shares);
    double left = 1;
    double progress = 0;
    for (const double share : shares) {
        const double pace = std::min(1.0, left / share);
        progress += pace;
        left -= pace * share;
    }
    return progress;
}

// Where little is asked for, all is well without grants; where jobs are alike, nobody can give
// without losing as much. Between these grants take jobs nearer to the ideal.
TEST(MakingRoomTest, OneCardAgainstTheIdeal) {
    for (const auto& shares : std::vector<std::vector<double>>{{0.05, 0.05, 0.1},
                                                               {0.05, 0.15, 0.3, 0.4},
                                                               {0.1, 0.1, 0.45, 0.45, 0.45},
                                                               {0.4, 0.4, 0.4, 0.4}}) {
        const Bench bench = on_one_card(shares);
        const double off = sum(bench.run(std::vector<double>(shares.size(), 1)));
        const double on = sum(bench.run(bench.granted(RoomRule::kProgress)));
        fmt::print("load {:.2f}: off {:.3f}, with grants {:.3f}, ideal {:.3f}\n", sum(shares), off,
                   on, ideal(shares));
        EXPECT_GE(on, off * 0.99);
        EXPECT_LE(on, ideal(shares) * 1.01);
    }
}

// The first alone would need little of the card, but gets an equal share.
TEST(MakingRoomTest, ShortTransfersGainMoreThanLongOnesLose) {
    const Bench bench = on_one_card({0.05, 0.45, 0.45, 0.45});
    const std::vector<double> off = bench.run({1, 1, 1, 1});
    const std::vector<double> weights = bench.granted(RoomRule::kProgress);
    const std::vector<double> on = bench.run(weights);
    EXPECT_GT(weights[0], 1);
    EXPECT_GT(on[0], off[0] + 0.03);
    EXPECT_GT(sum(on), sum(off) + 0.02);
}

/// A random fleet.
Bench draw(std::uint64_t seed, double traffic) {
    std::mt19937_64 random(seed);
    const auto below = [&](int count) {
        return static_cast<int>(random() % static_cast<std::uint64_t>(count));
    };
    const auto uniform = [&](double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(random);
    };
    const int nodes = 4;
    std::vector<FluidJob> jobs;
    const int count = 3 + below(4);
    for (int i = 0; i < count; ++i) {
        FluidJob job;
        const int workers = 2 + below(7);
        for (int w = 0; w < workers; ++w) {
            job.workers.push_back(below(nodes));
        }
        const int servers = 1 + below(2);
        for (int s = 0; s < servers; ++s) {
            job.servers.push_back(below(nodes));
        }
        job.compute_s = uniform(0.2, 2);
        job.bytes = traffic * std::pow(10, uniform(-1.5, 0)) * servers / workers;
        job.server_core_s = uniform(0, 1);
        job.server_threads = 2;
        jobs.push_back(job);
    }
    return Bench(cards(nodes), jobs);
}

// Over random fleets: predictions are right on the average, the sum of progress is hardly ever
// lower than without grants, and nobody is pushed below the limit.
TEST(MakingRoomTest, RandomFleets) {
    for (const double traffic : {0.3, 1.0, 3.0}) {
        double error = 0;
        double bias = 0;
        double jobs = 0;
        double least = 1;
        double worst = 1;
        std::map<RoomRule, double> sums;
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            const Bench bench = draw(seed, traffic);
            const std::vector<double> fair(bench.jobs.size(), 1.0);
            const std::vector<double> off = bench.run(fair);
            const std::vector<double> predicted = bench.predicted(fair);
            for (std::size_t i = 0; i < off.size(); ++i) {
                error += std::abs(predicted[i] - off[i]);
                bias += predicted[i] - off[i];
            }
            jobs += static_cast<double>(off.size());
            sums[RoomRule::kOff] += sum(off);
            sums[RoomRule::kStar] += sum(bench.run(bench.granted(RoomRule::kStar)));
            const std::vector<double> on = bench.run(bench.granted(RoomRule::kProgress));
            sums[RoomRule::kProgress] += sum(on);
            worst = std::min(worst, sum(on) / sum(off));
            for (std::size_t i = 0; i < on.size(); ++i) {
                least = std::min(least, on[i] / std::min(0.7, off[i]));
            }
        }
        fmt::print(
            "traffic {}: error {:.3f}, bias {:.3f}; mean progress {:.4f} off, {:.4f} progress, "
            "{:.4f} star; least by limit {:.3f}, worst sum {:.3f}\n",
            traffic, error / jobs, bias / jobs, sums[RoomRule::kOff] / jobs,
            sums[RoomRule::kProgress] / jobs, sums[RoomRule::kStar] / jobs, least, worst);
        EXPECT_LT(error / jobs, 0.06);
        EXPECT_LT(std::abs(bias / jobs), 0.03);
        EXPECT_GT(sums[RoomRule::kProgress], sums[RoomRule::kOff]);
        EXPECT_GT(worst, 0.97);
        EXPECT_GT(least, 0.85);
    }
}

}  // namespace
}  // namespace cohort
