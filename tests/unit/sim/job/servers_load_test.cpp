// Jobs that share a cluster.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/job/virtual_job.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

constexpr double kBytes = 1e6;
constexpr double kCard = 40e6;  // into the servers' node
constexpr double kWide = 4e9;

ClusterProfile wide_profile() {
    ClusterProfile profile = test::plain_profile();
    profile.nic_bytes_per_s = kWide;
    return profile;
}

std::unique_ptr<Scenario> narrow_first_node() {
    return make_scenario(
        {{.time_s = 0, .target = {TraceTarget::Kind::kNode, 0}, .shares = {.rx = kCard / kWide}}});
}

JobSpec asgd_job(int first_node, std::int64_t pushes) {
    JobSpec spec;
    spec.choice.modes = {{.mode = parse_mode("asgd", spec.setting)}};
    spec.setting.live.assign(16, true);
    spec.setting.batch = 64;
    for (int worker = 0; worker < 16; ++worker) {
        spec.worker_nodes.push_back(first_node + worker);
    }
    spec.server_nodes = {0};
    spec.workload = test::plain_profile().workloads["plain"];
    spec.workload.parameter_bytes = kBytes;
    spec.budget_samples = pushes * 64;
    spec.train.samples = spec.train.chunk_samples = spec.budget_samples;
    spec.lr = 0.1;
    return spec;
}

/// Each of two jobs would fill the card of the node that has both servers.
TEST(TwoJobs, GetHalfOfACardEach) {
    EventQueue queue;
    VirtualCluster cluster(queue, wide_profile(), 33, narrow_first_node());
    const std::unique_ptr<Learner> learner = std::make_unique<Learner>();
    const auto first = make_servers_job(cluster, *learner, asgd_job(1, 4000));
    const auto second = make_servers_job(cluster, *learner, asgd_job(17, 4000));
    cluster.start();
    first->begin();
    second->begin();
    while (!first->over()) {
        ASSERT_TRUE(queue.step());
    }
    EXPECT_NEAR(4000 / queue.now(), 0.5 * kCard / kBytes, 0.005 * kCard / kBytes);
    EXPECT_NEAR(static_cast<double>(second->session.counts().updates), 4000, 20);
    second->end("time");
    EXPECT_TRUE(second->over());
    EXPECT_TRUE(second->stuck()) << "nothing of it is left on the cluster";
}

/// Alone the second one has it all.
TEST(TwoJobs, LeaveTheCardToEachOther) {
    EventQueue queue;
    VirtualCluster cluster(queue, wide_profile(), 33, narrow_first_node());
    const std::unique_ptr<Learner> learner = std::make_unique<Learner>();
    const auto first = make_servers_job(cluster, *learner, asgd_job(1, 400));
    const auto second = make_servers_job(cluster, *learner, asgd_job(17, 4000));
    cluster.start();
    first->begin();
    second->begin();
    while (!second->over()) {
        ASSERT_TRUE(queue.step());
    }
    EXPECT_TRUE(first->over());
    EXPECT_NEAR(queue.now(), 4400 * kBytes / kCard, 0.01 * 4400 * kBytes / kCard);
}

/// Each has servers on other nodes.
TEST(Arrivals, LeaveNothingBehind) {
    EventQueue queue;
    VirtualCluster cluster(queue, test::plain_profile(), 64, nullptr);
    const std::unique_ptr<Learner> learner = std::make_unique<Learner>();
    cluster.start();
    double sent = 0;
    for (int arrival = 0; arrival < 2000; ++arrival) {
        JobSpec spec = asgd_job(0, 4);
        spec.choice.modes = {{.mode = parse_mode("ssgd", spec.setting)}};
        spec.setting.live.assign(2, true);
        spec.worker_nodes = {arrival % 64, arrival % 63};
        spec.server_nodes = {arrival % 61, (arrival / 61 + 1 + arrival) % 64};
        const auto job = make_servers_job(cluster, *learner, std::move(spec));
        job->begin();
        while (!job->over()) {
            ASSERT_TRUE(queue.step());
        }
        ASSERT_LE(cluster.forget_unused(), 2U) << arrival;
    }
    EXPECT_LE(cluster.add_place(0), 2) << "places are used again";
    for (int node = 0; node < 64; ++node) {
        sent += cluster.node(node).tx_bytes;
        EXPECT_GT(cluster.node(node).tx_bytes, 0) << "what went over a card stays counted";
    }
    // Two updates of two workers each: four pushes and four pulls, less what stays on a node.
    EXPECT_NEAR(sent, 2000 * 8 * kBytes, 0.05 * 2000 * 8 * kBytes);
}

/// Notes the learning rates that it is told.
class Rates final : public Learner {
public:
    Released release(int /*worker*/, double /*lag*/, double lr, bool /*compensated*/) override {
        released.push_back(lr);
        return {};
    }
    double apply(const UpdateOrder& update, std::span<const WorkId> /*works*/) override {
        applied.push_back(update.learning_rate);
        return 0;
    }

    std::vector<double> released;
    std::vector<double> applied;
};

/// A server looks ahead with the rate of the update that it makes, not with the next one's.
TEST(LookAhead, HasTheLearningRateOfTheUpdate) {
    EventQueue queue;
    VirtualCluster cluster(queue, wide_profile(), 17, nullptr);
    Rates rates;
    JobSpec spec = asgd_job(1, 40);
    spec.schedule = Schedule::parse("step:0.9@every:64");
    const auto job = make_servers_job(cluster, rates, spec);
    cluster.start();
    job->begin();
    while (!job->over()) {
        ASSERT_TRUE(queue.step());
    }
    ASSERT_EQ(rates.applied.size(), 40U);
    ASSERT_EQ(rates.released.size(), 16U + 40U) << "at the start, and after every update";
    EXPECT_LT(rates.applied[1], rates.applied[0]);
    EXPECT_EQ(std::vector(rates.released.begin() + 16, rates.released.end()), rates.applied);
}

/// Jobs that arrive take what they need, and leave after their iterations.
TEST(Colocated, JobsSlowARunDown) {
    const test::VirtualRuns runs([] {
        ClusterProfile profile = test::plain_profile();
        profile.nic_bytes_per_s = 1e9;
        profile.devices_per_node = 8;
        Workload& work = profile.workloads["plain"];
        work.cpu_s_per_sample = 0.016 / 64 * 16;  // half of a node's cores for a tenth of the time
        work.cpu_threads = 12;
        work.parameter_bytes = 2e7;
        return profile;
    }());
    SimulateOptions options = runs.options("ssgd", 8, 4000);
    const double alone = simulate(options, {}).virtual_s;
    options.pattern = "colocated";
    const SimulationResult crowded = simulate(options, {});
    EXPECT_GT(crowded.virtual_s, 1.02 * alone);
    EXPECT_EQ(crowded.samples_applied, options.samples);
    EXPECT_EQ(crowded.digest, simulate(options, {}).digest);
}

/// A policy may ask for a time that has come again and again, when its question is not heard there.
TEST(ConsultationAlarm, RingsOnceForATime) {
    EventQueue queue;
    int rung = 0;
    std::unique_ptr<ConsultationAlarm> alarm;
    alarm = std::make_unique<ConsultationAlarm>(queue, [&] {
        ++rung;
        EXPECT_TRUE(alarm->stop());
        alarm->set(1.0);
    });
    alarm->set(1.0);
    for (int i = 0; i < 10 && queue.step(); ++i) {
    }
    EXPECT_EQ(rung, 1);
    alarm->set(2.0);
    while (queue.step()) {
    }
    EXPECT_EQ(rung, 2);
    EXPECT_EQ(queue.now(), 2);
}

}  // namespace
}  // namespace cohort
