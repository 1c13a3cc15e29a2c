// The physics of the virtual cluster, in numbers worked out by hand.
#include "sim/cluster/cluster.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "support/sim/queue_steps.hpp"

namespace cohort {
namespace {

/// Rows and jobs from lists.
class ListScenario : public Scenario {
public:
    explicit ListScenario(std::vector<TraceRow> rows, std::vector<JobArrival> jobs = {})
        : rows_(std::move(rows)), jobs_(std::move(jobs)) {}
    std::optional<TraceRow> next_row() override {
        return row_ < rows_.size() ? std::optional(rows_[row_++]) : std::nullopt;
    }
    std::optional<JobArrival> next_job() override {
        return job_ < jobs_.size() ? std::optional(jobs_[job_++]) : std::nullopt;
    }

private:
    std::vector<TraceRow> rows_;
    std::vector<JobArrival> jobs_;
    std::size_t row_ = 0;
    std::size_t job_ = 0;
};

TraceRow node_row(double time_s, int index, Shares shares) {
    return {time_s, {TraceTarget::Kind::kNode, index}, shares};
}
TraceRow worker_row(double time_s, int index, Shares shares) {
    return {time_s, {TraceTarget::Kind::kWorker, index}, shares};
}

/// 100 bytes/s each way, 1 s of latency, 400 bytes/s within a node, 4 cores.
ClusterProfile simple_profile() {
    ClusterProfile profile;
    profile.nic_bytes_per_s = 100;
    profile.latency_s = 1;
    profile.local_bytes_per_s = 400;
    profile.cores = 4;
    return profile;
}

class ClusterTest : public ::testing::Test {
protected:
    void make(int nodes, std::vector<TraceRow> rows = {}, std::vector<JobArrival> jobs = {}) {
        cluster_ = std::make_unique<VirtualCluster>(
            queue_, simple_profile(), nodes,
            std::make_unique<ListScenario>(std::move(rows), std::move(jobs)), &weights_);
    }
    /// Notes when it was called, in the order of calls to note().
    VirtualCluster::Action note() {
        const std::size_t index = times_.size();
        times_.push_back(-1);
        return [this, index] { times_[index] = queue_.now(); };
    }
    void run() { test::run_all(queue_); }
    void run_until(double seconds) { test::run_queue_until(queue_, seconds); }
    void expect_times(const std::vector<double>& expected) {
        ASSERT_EQ(times_.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_NEAR(times_[i], expected[i], 1e-9) << i;
        }
    }

    EventQueue queue_;
    ClientWeights weights_;
    std::unique_ptr<VirtualCluster> cluster_;
    std::vector<double> times_;
};

TEST_F(ClusterTest, AnIterationIsDelayInputForwardBackward) {
    make(1, {worker_row(0, 0, {.delay_s = 0.5})});
    const auto place = cluster_->add_place(0);
    cluster_->start();
    const auto backward = note();
    const auto done = note();
    // 3 core seconds on 2 threads: 1.5 s; the device 6 s, of which 4 s backward.
    cluster_->compute(place,
                      {.cpu_core_s = 3, .cpu_threads = 2, .device_s = 6, .backward_share = 2.0 / 3},
                      backward, done);
    run();
    expect_times({0.5 + 1.5 + 2, 0.5 + 1.5 + 6});
    EXPECT_NEAR(cluster_->node(0).cpu_core_s, 3, 1e-12);
}

TEST_F(ClusterTest, SharesOfWorkerAndNodeMultiplyAndDelaysAdd) {
    make(2, {node_row(0, 1, {.cpu = 0.5, .device = 0.5, .delay_s = 1}),
             worker_row(0, 1, {.cpu = 0.5, .device = 0.25, .delay_s = 2})});
    const auto healthy = cluster_->add_place(0);
    const auto slow = cluster_->add_place(1);
    cluster_->start();
    EXPECT_EQ(cluster_->shares(healthy), Shares{});
    EXPECT_EQ(cluster_->shares(slow), (Shares{.cpu = 0.25, .device = 0.125, .delay_s = 3}));
    for (const auto place : {healthy, slow}) {
        cluster_->compute(place, {.cpu_core_s = 1, .cpu_threads = 1, .device_s = 1}, nullptr,
                          note());
    }
    run();
    expect_times({2, 3 + 4 + 8});
}

TEST_F(ClusterTest, SharesThatChangeInMidIterationCountFromThenOn) {
    make(1, {worker_row(1, 0, {.cpu = 0.5}), worker_row(4, 0, {.device = 0.1, .delay_s = 9}),
             worker_row(14, 0, {})});
    const auto place = cluster_->add_place(0);
    cluster_->start();
    // Input: 1 s at full pace, 2 s at half: over at 3 s. Device: 1 s of 3, then 10 s at a tenth,
    // then 1 s. The delay is one of the iterations that begin later.
    cluster_->compute(place, {.cpu_core_s = 2, .cpu_threads = 1, .device_s = 3}, nullptr, note());
    run();
    expect_times({15});
}

TEST_F(ClusterTest, WorkersOfANodeShareItsCores) {
    make(1);
    const auto one = cluster_->add_place(0);
    const auto two = cluster_->add_place(0);
    cluster_->start();
    // 3 threads each on 4 cores: 2 cores each; a server's 1 thread takes 1 of the 4: 1.5 each.
    cluster_->compute(one, {.cpu_core_s = 6, .cpu_threads = 3}, nullptr, note());
    cluster_->compute(two, {.cpu_core_s = 6, .cpu_threads = 3}, nullptr, note());
    cluster_->serve(0, 2, 1, note());
    run();
    // After 2 s 3 of 6 core seconds are left, then 2 cores each.
    expect_times({3.5, 3.5, 2});
    EXPECT_NEAR(cluster_->node(0).cpu_core_s, 14, 1e-12);
}

TEST_F(ClusterTest, AServersWorkHasItsNodesShareOfTheProcessors) {
    make(1, {node_row(1, 0, {.cpu = 0.5})});
    cluster_->start();
    cluster_->serve(0, 4, 2, note());
    run();
    expect_times({1 + 2});
}

TEST_F(ClusterTest, ATransferTakesTheLatencyAndBothCards) {
    make(3);
    cluster_->start();
    cluster_->send(0, 2, 200, note());
    cluster_->send(1, 2, 200, note());
    cluster_->send(2, 1, 200, note());  // the other direction is free
    cluster_->send(1, 1, 200, note());  // stays on the node
    cluster_->send(0, 1, 0, note());
    run();
    expect_times({5, 5, 3, 0.5, 1});
    EXPECT_NEAR(cluster_->node(2).rx_bytes, 400, 1e-9);
    EXPECT_NEAR(cluster_->node(2).tx_bytes, 200, 1e-9);
    EXPECT_NEAR(cluster_->node(1).rx_bytes, 200, 1e-9);
    EXPECT_NEAR(cluster_->node(1).tx_bytes, 200, 1e-9);
}

TEST_F(ClusterTest, TwoEqualJobsOnACardHaveHalfEach) {
    make(2);
    cluster_->start();
    cluster_->send(0, 1, 100, note());
    cluster_->send(0, 1, 300, note());
    run();
    expect_times({3, 5});
}

TEST_F(ClusterTest, ACardsShareChangesInMidTransfer) {
    make(2, {node_row(2, 1, {.rx = 0.1}), node_row(7, 1, {.rx = 0.5})});
    cluster_->start();
    cluster_->send(0, 1, 200, note());
    run();
    // 100 by 2 s, 50 by 7 s, 50 more in 1 s.
    expect_times({8});
}

TEST_F(ClusterTest, PushesToServersKeepPaceAndSpareTheNetworkOnTheirOwnNode) {
    make(4);
    cluster_->start();
    // To four servers, one on its own node: three quarters go over the card.
    cluster_->scatter(0, {0, 1, 2, 3}, 400, note());
    run();
    expect_times({1 + 3});
    EXPECT_NEAR(cluster_->node(0).tx_bytes, 300, 1e-9);
    EXPECT_NEAR(cluster_->node(3).rx_bytes, 100, 1e-9);
    EXPECT_NEAR(cluster_->node(0).rx_bytes, 0, 1e-9);
    // All servers of one node: its card is what counts.
    cluster_->gather({1, 1, 1, 1}, 0, 400, note());
    cluster_->gather({2, 2}, 2, 400, note());
    run();
    EXPECT_NEAR(times_[1], 4 + 1 + 4, 1e-9);
    EXPECT_NEAR(times_[2], 4 + 1, 1e-9);
    EXPECT_NEAR(cluster_->node(0).rx_bytes, 400, 1e-9);
}

TEST_F(ClusterTest, ManyPushesAreHeldByTheServersCard) {
    make(9);
    cluster_->start();
    for (int i = 1; i <= 8; ++i) {
        cluster_->scatter(i, {0}, 100, note());
    }
    run();
    expect_times(std::vector<double>(8, 1 + 8));
}

TEST_F(ClusterTest, ARingHasThePaceOfItsSlowestLink) {
    make(4, {node_row(0, 2, {.tx = 0.25})});
    cluster_->start();
    // 2 * 3/4 * 400 bytes over each link, 25 bytes/s on the slowest; 6 latencies.
    cluster_->all_reduce({0, 1, 2, 3}, 400, note());
    run();
    expect_times({6 + 600 / 25.0});
    EXPECT_NEAR(cluster_->node(0).rx_bytes, 600, 1e-9);
    EXPECT_NEAR(cluster_->node(2).tx_bytes, 600, 1e-9);
}

TEST_F(ClusterTest, ARingWithinANodeHasTheLocalRateAndAloneItHasNothingToDo) {
    make(2);
    cluster_->start();
    cluster_->all_reduce({0, 0}, 400, note());
    cluster_->all_reduce({1}, 400, note());
    // Two members on each node: a card sees one link.
    cluster_->all_reduce({0, 0, 1, 1}, 400, note());
    run();
    expect_times({1, 0, 6 + 6});
}

TEST_F(ClusterTest, CancelledWorkNeverEndsAndTellsItsShare) {
    make(2);
    const auto place = cluster_->add_place(0);
    cluster_->start();
    const auto flow = cluster_->send(0, 1, 400, note());
    const auto waits = cluster_->send(0, 1, 400, note());
    const auto backward = note();
    const auto computed = note();
    const auto iteration = cluster_->compute(
        place, {.cpu_core_s = 1, .cpu_threads = 1, .device_s = 3, .backward_share = 0.5}, backward,
        computed);
    const auto served = cluster_->serve(1, 8, 2, note());
    EXPECT_EQ(cluster_->cancel(waits), 1);
    run_until(3);
    EXPECT_NEAR(cluster_->cancel(flow), 0.5, 1e-12);
    EXPECT_NEAR(cluster_->cancel(iteration), 0.25, 1e-12);
    EXPECT_NEAR(cluster_->cancel(served), 0.25, 1e-12);
    EXPECT_EQ(cluster_->cancel(served), 0);
    EXPECT_EQ(cluster_->cancel(0), 0);
    run();
    expect_times({-1, -1, 2.5, -1, -1});
    EXPECT_NEAR(cluster_->node(1).rx_bytes, 200, 1e-9);
    EXPECT_NEAR(cluster_->node(1).cpu_core_s, 6, 1e-9);
}

TEST_F(ClusterTest, JobsArriveInTheirTime) {
    make(1, {}, {{.time_s = 2, .workers = 3}, {.time_s = 5, .workers = 4}});
    std::vector<std::pair<double, int>> seen;
    cluster_->on_arrival(
        [&](const JobArrival& job) { seen.emplace_back(queue_.now(), job.workers); });
    cluster_->start();
    run();
    EXPECT_EQ(seen, (std::vector<std::pair<double, int>>{{2, 3}, {5, 4}}));
}

TEST_F(ClusterTest, ATraceOfSomebodyWhoIsNotThereIsRefused) {
    make(2, {node_row(0, 2, {})});
    EXPECT_THROW(cluster_->start(), UsageError);
    make(2, {worker_row(0, 0, {})});
    EXPECT_THROW(cluster_->start(), UsageError);
    make(2, {node_row(0, 1, {.rx = 0})});
    EXPECT_THROW(cluster_->start(), UsageError);
}

/// 75 and 25 bytes/s until the first 300 bytes are there after 1 + 4 s, then 100 for the other 200.
TEST_F(ClusterTest, WeightsOfClientsShareACard) {
    make(3);
    weights_.set(2, 3);
    const auto send = [&](int client) {
        queue_.act_for(client);
        cluster_->send(client - 1, 2, 300, note());
    };
    send(1);
    send(2);
    run();
    expect_times({7, 5});
}

/// Each wants 4 of 4 cores and gets 1 and 3; what has begun keeps its weight.
TEST_F(ClusterTest, WeightsOfClientsShareProcessorsFromTheNextWorkOn) {
    make(1);
    weights_.set(2, 3);
    for (const int client : {1, 2}) {
        queue_.act_for(client);
        cluster_->serve(0, 6, 4, note());
    }
    weights_.set(2, 1);
    run();
    expect_times({3, 2});
    for (const int client : {1, 2}) {
        queue_.act_for(client);
        cluster_->serve(0, 6, 4, note());
    }
    run();
    expect_times({3, 2, 6, 6});
}

}  // namespace
}  // namespace cohort
