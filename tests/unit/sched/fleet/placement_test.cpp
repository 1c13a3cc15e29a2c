// Where servers live: scores by their definition, optima by enumeration, rules that look at no
// load.
#include "sched/fleet/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "sched/fleet/placement_load.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;

constexpr double kCard = 1000;

std::vector<NodeRoom> nodes_of(int count, double cores = 8) {
    return std::vector<NodeRoom>(
        static_cast<std::size_t>(count),
        {.capacity = {.cores = cores, .rx_bytes_s = kCard, .tx_bytes_s = kCard}});
}

JobDemand job_on(const std::vector<int>& workers, int servers, double bytes_s) {
    JobDemand demand{
        .workers = {},
        .shares = std::vector<double>(static_cast<std::size_t>(servers), 1.0 / servers),
        .push_bytes = bytes_s,
        .pull_bytes = bytes_s};
    for (const int node : workers) {
        demand.workers.push_back({.node = node, .iterations_s = 1});
    }
    return demand;
}

// A worker beside the only server and one elsewhere: the card carries the second one's traffic.
TEST(PlacementTest, TrafficWithinANodeDoesNotUseItsCard) {
    const std::vector<NodeRoom> nodes = nodes_of(2);
    const std::vector<PlacedJob> jobs = {{job_on({0, 0, 0, 1}, 1, 100), {0}}};
    const std::vector<NodeUse> use = PlacementLoad(nodes, jobs).nodes();
    for (const NodeUse& node : use) {
        EXPECT_NEAR(node.rx, 0.1, 1e-12);
        EXPECT_NEAR(node.tx, 0.1, 1e-12);
    }
    const PlacementScore score = PlacementLoad(nodes, jobs).score();
    EXPECT_NEAR(score.utilisation, 0.1, 1e-12);
    EXPECT_NEAR(score.waits, 0.2, 1e-12);  // push and pull
    EXPECT_NEAR(score.crossing, 0.4, 1e-12);
}

// Two jobs on one card of which they take 0.3 and 0.2: 0.3 (1 + 0.2) and 0.2 (1 + 0.3).
TEST(PlacementTest, WaitsGrowWithWhatOthersTake) {
    const std::vector<NodeRoom> nodes = nodes_of(3);
    JobDemand first = job_on({1}, 1, 300);
    JobDemand second = job_on({2}, 1, 200);
    first.pull_bytes = second.pull_bytes = 0;
    const std::vector<PlacedJob> jobs = {{first, {0}}, {second, {0}}};
    EXPECT_NEAR(PlacementLoad(nodes, jobs).score().waits, 0.3 * 1.2 + 0.2 * 1.3, 1e-12);
}

/// The score written down as it is defined, from all pairs of a worker and a server.
PlacementScore slow_score(const std::vector<NodeRoom>& nodes, const std::vector<PlacedJob>& jobs) {
    struct Own {
        std::map<int, double> push_in, push_out, pull_in, pull_out, serving;
    };
    std::vector<NodeUse> use;
    for (const NodeRoom& node : nodes) {
        use.push_back(node.used);
    }
    std::vector<Own> own(jobs.size());
    const auto at = [&](int node) { return nodes[static_cast<std::size_t>(node)].capacity; };
    const auto use_at = [&](int node) -> NodeUse& { return use[static_cast<std::size_t>(node)]; };
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const JobDemand& demand = jobs[i].demand;
        for (std::size_t s = 0; s < demand.shares.size(); ++s) {
            const int server = jobs[i].servers[s];
            const double work = demand.shares[s] * demand.server_cores / at(server).cores;
            own[i].serving[server] += work;
            use_at(server).cores += work;
            for (const JobDemand::Worker& worker : demand.workers) {
                if (worker.node == server) {
                    continue;
                }
                const double push = worker.iterations_s * demand.shares[s] * demand.push_bytes;
                const double pull = worker.iterations_s * demand.shares[s] * demand.pull_bytes;
                own[i].push_in[server] += push / at(server).rx_bytes_s;
                own[i].push_out[worker.node] += push / at(worker.node).tx_bytes_s;
                own[i].pull_in[worker.node] += pull / at(worker.node).rx_bytes_s;
                own[i].pull_out[server] += pull / at(server).tx_bytes_s;
                use_at(server).rx += push / at(server).rx_bytes_s;
                use_at(worker.node).tx += push / at(worker.node).tx_bytes_s;
                use_at(worker.node).rx += pull / at(worker.node).rx_bytes_s;
                use_at(server).tx += pull / at(server).tx_bytes_s;
            }
        }
        for (const JobDemand::Worker& worker : demand.workers) {
            use_at(worker.node).cores += demand.worker_cores / at(worker.node).cores;
        }
    }
    PlacementScore score;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const JobDemand& demand = jobs[i].demand;
        Own& mine = own[i];
        double push = 0;
        double pull = 0;
        double serving = 0;
        double input = 0;
        for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
            const double rx = 1 + use_at(n).rx - mine.push_in[n] - mine.pull_in[n];
            const double tx = 1 + use_at(n).tx - mine.push_out[n] - mine.pull_out[n];
            push = std::max({push, mine.push_in[n] * rx, mine.push_out[n] * tx});
            pull = std::max({pull, mine.pull_in[n] * rx, mine.pull_out[n] * tx});
        }
        for (std::size_t s = 0; s < demand.shares.size(); ++s) {
            const int n = jobs[i].servers[s];
            const double alone = demand.shares[s] * demand.server_cores / demand.server_threads;
            serving = std::max(serving,
                               std::max(alone, mine.serving[n]) * std::max(1.0, use_at(n).cores));
        }
        for (const JobDemand::Worker& worker : demand.workers) {
            input = std::max(input, demand.worker_cores / demand.worker_threads *
                                        (use_at(worker.node).cores - 1));
        }
        score.waits += push + pull + serving + input;
    }
    for (const NodeUse& node : use) {
        score.utilisation = std::max(score.utilisation, node.largest());
        score.crossing += node.rx + node.tx;
    }
    return score;
}

/// Random nodes and jobs.
struct Case {
    explicit Case(std::uint64_t seed, int most_nodes = 6, int most_jobs = 4) : random(seed) {
        nodes.resize(static_cast<std::size_t>(draw(2, most_nodes)));
        for (NodeRoom& node : nodes) {
            const double card = kCard * (draw(0, 4) == 0 ? 0.3 : 1);
            node.capacity = {
                .cores = static_cast<double>(draw(2, 16)), .rx_bytes_s = card, .tx_bytes_s = card};
            node.used = {.cores = uniform(0.3), .rx = uniform(0.3), .tx = uniform(0.3)};
        }
        const int count = draw(1, most_jobs);
        for (int i = 0; i < count; ++i) {
            jobs.push_back({draw_job(), {}});
        }
    }

    JobDemand draw_job() {
        std::vector<int> workers(static_cast<std::size_t>(draw(1, 10)));
        for (int& node : workers) {
            node = draw(0, static_cast<int>(nodes.size()) - 1);
        }
        JobDemand demand = job_on(workers, draw(1, 3), 20 + uniform(150));
        demand.server_cores = uniform(4);
        demand.server_threads = draw(1, 4);
        demand.worker_cores = uniform(0.5);
        for (JobDemand::Worker& worker : demand.workers) {
            worker.iterations_s = 0.5 + uniform(1);
        }
        if (draw(0, 2) == 0) {
            demand.shares.front() *= 1.5;
        }
        return demand;
    }
    int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
    double uniform(double high) { return std::uniform_real_distribution<double>(0, high)(random); }

    std::mt19937_64 random;
    std::vector<NodeRoom> nodes;
    std::vector<PlacedJob> jobs;
};

TEST(PlacementTest, ScoresAreThoseOfTheDefinition) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Case drawn(seed);
        PlacementLoad load(drawn.nodes, drawn.jobs);
        for (PlacedJob& job : drawn.jobs) {
            job.servers.resize(job.demand.shares.size());
        }
        for (int change = 0; change < 20; ++change) {
            for (std::size_t job = 0; job < drawn.jobs.size(); ++job) {
                for (std::size_t server = 0; server < drawn.jobs[job].servers.size(); ++server) {
                    const int node = drawn.draw(0, static_cast<int>(drawn.nodes.size()) - 1);
                    drawn.jobs[job].servers[server] = node;
                    load.move(job, server, node);
                }
            }
            const PlacementScore expected = slow_score(drawn.nodes, drawn.jobs);
            ASSERT_NEAR(load.score().utilisation, expected.utilisation, 1e-9) << seed;
            ASSERT_NEAR(load.score().waits, expected.waits, 1e-9) << seed;
            ASSERT_NEAR(load.score().crossing, expected.crossing, 1e-9) << seed;
        }
    }
}

/// The least scores over all placements.
class Enumeration {
public:
    Enumeration(const std::vector<NodeRoom>& nodes, const std::vector<PlacedJob>& jobs)
        : nodes_(static_cast<int>(nodes.size())), jobs_(jobs), load_(nodes, jobs) {
        enumerate(0, 0);
    }
    double waits = 1e300;
    double utilisation = 1e300;

private:
    void enumerate(std::size_t job, std::size_t server) {
        if (job == jobs_.size()) {
            const PlacementScore score = load_.score();
            waits = std::min(waits, score.waits);
            utilisation = std::min(utilisation, score.utilisation);
            return;
        }
        if (server == jobs_[job].demand.shares.size()) {
            enumerate(job + 1, 0);
            return;
        }
        const std::vector<double>& shares = jobs_[job].demand.shares;
        const bool alike = server > 0 && shares[server] == shares[server - 1];
        for (int node = alike ? load_.node_of(job, server - 1) : 0; node < nodes_; ++node) {
            load_.move(job, server, node);
            enumerate(job, server + 1);
        }
    }
    int nodes_;
    const std::vector<PlacedJob>& jobs_;
    PlacementLoad load_;
};

/// Placements that an enumeration has to look at.
double placements(const Case& drawn) {
    double count = 1;
    for (const PlacedJob& job : drawn.jobs) {
        count *= std::pow(drawn.nodes.size(), job.demand.shares.size());
    }
    return count;
}

TEST(PlacementTest, WithinTwoPercentOfTheOptimum) {
    int cases = 0;
    double worst_waits = 1;
    double worst_utilisation = 1;
    for (std::uint64_t seed = 1; cases < 800; ++seed) {
        Case drawn(seed);
        if (placements(drawn) > 50000) {
            continue;
        }
        ++cases;
        const Enumeration optimum(drawn.nodes, drawn.jobs);
        std::vector<PlacedJob> jobs = drawn.jobs;
        place_servers(drawn.nodes, jobs, PlacementRule::kWaits);
        const double waits = PlacementLoad(drawn.nodes, jobs).score().waits / optimum.waits;
        worst_waits = std::max(worst_waits, waits);
        EXPECT_LE(waits, 1.02) << seed;
        jobs = drawn.jobs;
        place_servers(drawn.nodes, jobs, PlacementRule::kUtilisation);
        const double largest =
            PlacementLoad(drawn.nodes, jobs).score().utilisation / optimum.utilisation;
        worst_utilisation = std::max(worst_utilisation, largest);
        EXPECT_LE(largest, 1.02) << seed;
    }
    RecordProperty("worst_waits", std::to_string(worst_waits));
    RecordProperty("worst_utilisation", std::to_string(worst_utilisation));
}

TEST(PlacementTest, NeverWorseThanPlacementsThatLookAtNoLoad) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const Case drawn(seed, 12, 8);
        const auto score = [&](PlacementRule rule) {
            std::vector<PlacedJob> jobs = drawn.jobs;
            place_servers(drawn.nodes, jobs, rule, seed);
            return PlacementLoad(drawn.nodes, jobs).score();
        };
        const PlacementScore waits = score(PlacementRule::kWaits);
        const PlacementScore largest = score(PlacementRule::kUtilisation);
        for (const PlacementRule rule :
             {PlacementRule::kEven, PlacementRule::kPacked, PlacementRule::kRandom,
              PlacementRule::kBeside, PlacementRule::kStar}) {
            EXPECT_LE(waits.waits, score(rule).waits * (1 + 1e-6)) << word_of(rule) << seed;
            EXPECT_LE(largest.utilisation, score(rule).utilisation * (1 + 1e-6))
                << word_of(rule) << seed;
        }
    }
}

TEST(PlacementTest, ServersOfOtherJobsStay) {
    const std::vector<NodeRoom> nodes = nodes_of(3);
    std::vector<PlacedJob> jobs = {{job_on({0, 0}, 1, 100), {2}}, {job_on({1, 1}, 1, 100), {}}};
    place_servers(nodes, jobs, PlacementRule::kWaits);
    EXPECT_THAT(jobs[0].servers, ElementsAre(2));
    EXPECT_THAT(jobs[1].servers, ElementsAre(1));  // beside its workers: nothing crosses
}

// Its own two servers on one card would slow the job down more than a card that others use a little
// more: the least utilisation is not the least wait.
TEST(PlacementTest, AJobsOwnServersStayApart) {
    std::vector<NodeRoom> nodes = nodes_of(4);
    nodes[1].used.rx = nodes[1].used.tx = 0.22;
    nodes[2].capacity.cores = nodes[3].capacity.cores = 0.01;  // no room for servers
    std::vector<PlacedJob> jobs = {{job_on({2, 3}, 2, 200), {}}};
    jobs[0].demand.server_cores = 0.1;
    place_servers(nodes, jobs, PlacementRule::kWaits);
    EXPECT_THAT(jobs[0].servers, ElementsAre(0, 1));
    jobs[0].servers.clear();
    place_servers(nodes, jobs, PlacementRule::kUtilisation);
    EXPECT_THAT(jobs[0].servers, ElementsAre(0, 0));
}

TEST(PlacementTest, PlainRules) {
    const std::vector<NodeRoom> nodes = nodes_of(4);
    const auto placed = [&](PlacementRule rule) {
        std::vector<PlacedJob> jobs = {{job_on({0}, 1, 1), {0}}, {job_on({3, 1, 3}, 3, 1), {}}};
        place_servers(nodes, jobs, rule, 7);
        return jobs[1].servers;
    };
    EXPECT_THAT(placed(PlacementRule::kEven), ElementsAre(1, 2, 3));
    EXPECT_THAT(placed(PlacementRule::kPacked), ElementsAre(1, 1, 1));
    EXPECT_THAT(placed(PlacementRule::kBeside), ElementsAre(3, 1, 3));
    EXPECT_THAT(placed(PlacementRule::kStar), ElementsAre(0, 1, 2));
    EXPECT_EQ(placed(PlacementRule::kRandom), placed(PlacementRule::kRandom));
}

}  // namespace
}  // namespace cohort
