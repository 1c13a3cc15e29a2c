// Rings under the virtual clock: times and lags against numbers worked out by hand.
#include <gmock/gmock.h>

#include "support/sim/ring_simulation.hpp"

namespace cohort {
namespace {

using RingJobTest = RingSimulation;

/// 2 (n - 1)/n bytes over every link, 2 (n - 1) latencies; from the middle of the iteration on.
constexpr double kReduce = 2 * 3.0 / 4 * 1e6 / 1e7 + 6 * 0.001;
/// The sum of gradients is read, parameters and velocity are read and written.
constexpr double kUpdate = 0.002 + 5 * 1e6 / 6.25e8;

TEST_F(RingJobTest, ARoundIsTheAllReduceFromBackwardOnAndTheUpdate) {
    const SimulationResult result = run(options({}, 4, 10));
    EXPECT_EQ(result.updates, 10);
    EXPECT_NEAR(result.virtual_s, 10 * (0.05 + kReduce) + 9 * kUpdate, 1e-9);
    expect_accounts(result, 400);
    EXPECT_EQ(result.stop_reason, "budget");
    const double moved = 10 * 4 * 3.0 / 4 * 1e6;  // sent and received
    for (std::size_t worker = 0; worker < 4; ++worker) {
        EXPECT_NEAR(result.worker_bytes.at(worker), moved, 1);
        EXPECT_NEAR(result.worker_busy_s.at(worker), 10 * 0.1 + 9 * kUpdate, 1e-9);
        EXPECT_NEAR(result.workers.at(worker).own_s, 0.1, 1e-9) << "the exchange is not its own";
    }
}

/// A slow member delays nobody but itself.
TEST_F(RingJobTest, TheIdealPaceIsThatOfMembersWhoDoNotWait) {
    const double own = 0.05 + kReduce + kUpdate;
    EXPECT_NEAR(run(options({}, 4, 50)).ideal_samples_s.value_or(0), 4 * 10 / own, 1e-6);
    SimulateOptions slow_one = options({}, 4, 50);
    slow_one.trace = trace({slow(2, {.device = 0.5})});
    EXPECT_NEAR(run(slow_one).ideal_samples_s.value_or(0), 10 * (3 / own + 1 / (own + 0.05)), 1e-6);
    slow_one.trace = trace({{.time_s = 0,
                             .target = {.kind = TraceTarget::Kind::kNode, .index = 2},
                             .shares = {.tx = 0.5}}});
    EXPECT_NEAR(run(slow_one).ideal_samples_s.value_or(0), 10 * (3 / own + 1 / (own + kReduce)),
                1e-6);
}

TEST_F(RingJobTest, AShortTransferIsHiddenBehindBackward) {
    const SimulationResult result = run(options({.parameter_bytes = 1e5}, 4, 10));
    const double update = 0.002 + 5 * 1e5 / 6.25e8;
    EXPECT_NEAR(result.virtual_s, 10 * 0.1 + 9 * update, 1e-9);
}

TEST_F(RingJobTest, AdamwUpdatesMoreBytes) {
    SimulateOptions adamw = options({}, 4, 10);
    adamw.optimizer = OptimizerKind::kAdamW;
    const double update = 0.002 + 7 * 1e6 / 6.25e8;
    EXPECT_NEAR(run(adamw).virtual_s, 10 * (0.05 + kReduce) + 9 * update, 1e-9);
}

/// A device at half its speed updates as slowly; no scenario's delay is part of an update.
TEST_F(RingJobTest, ADeviceWithMemoryUpdatesByItself) {
    SimulateOptions devices = options({.device_memory_bytes_per_s = 1e8}, 4, 10);
    const double fast = 0.002 + 5 * 1e6 / 1e8;
    EXPECT_NEAR(run(devices).virtual_s, 10 * (0.05 + kReduce) + 9 * fast, 1e-9);
    devices.trace = trace({slow(2, {.device = 0.5, .delay_s = 0.3})});
    const double late = 0.002 + 2 * 5 * 1e6 / 1e8;
    const SimulationResult result = run(devices);
    EXPECT_NEAR(result.virtual_s, 10 * (0.3 + 0.1 + kReduce) + 9 * late, 1e-9);
    EXPECT_NEAR(result.worker_cpu_s.at(0), 9 * 0.002, 1e-9) << "the processors only begin it";
}

TEST_F(RingJobTest, TheSlowestMemberSetsThePace) {
    SimulateOptions slow_device = options({}, 4, 10);
    slow_device.trace = trace({slow(2, {.device = 0.25})});
    const SimulationResult result = run(slow_device);
    // Backward begins after 0.2 s of 0.4 s and hides the all-reduce.
    EXPECT_NEAR(result.virtual_s, 10 * 0.4 + 9 * kUpdate, 1e-9);
    EXPECT_NEAR(result.worker_wait_s.at(0), 10 * 0.3, 1e-9);
    EXPECT_NEAR(result.worker_wait_s.at(2), 0, 1e-9);

    SimulateOptions delayed = options({}, 4, 10);
    delayed.trace = trace({slow(1, {.delay_s = 0.3})});
    EXPECT_NEAR(run(delayed).virtual_s, 10 * (0.35 + kReduce) + 9 * kUpdate, 1e-9);
}

TEST_F(RingJobTest, ASlowNetworkCardSetsThePace) {
    SimulateOptions narrow = options({.latency_s = 0}, 4, 10);
    narrow.trace = trace({{.time_s = 0,
                           .target = {.kind = TraceTarget::Kind::kNode, .index = 3},
                           .shares = {.tx = 0.1}}});
    EXPECT_NEAR(run(narrow).virtual_s, 10 * (0.05 + 1.5) + 9 * kUpdate, 1e-9);
}

TEST_F(RingJobTest, OneWorkerNeedsNobody) {
    const SimulationResult result = run(options({}, 1, 5));
    EXPECT_NEAR(result.virtual_s, 5 * 0.1 + 4 * kUpdate, 1e-9);
    EXPECT_EQ(result.worker_bytes.at(0), 0);
}

TEST_F(RingJobTest, LocalStepsExchangeOnceAtTheirEnd) {
    SimulateOptions local = options({}, 4, 8);
    local.mode = "localsgd:4";
    const SimulationResult result = run(local);
    EXPECT_EQ(result.updates, 2);
    // Each step has its update, the sum of all deltas too.
    EXPECT_NEAR(result.virtual_s, 2 * (4 * (0.1 + kUpdate) + kReduce) + kUpdate, 1e-9);
    EXPECT_NEAR(result.workers.at(0).own_s, 0.1 + kUpdate, 1e-9) << "per --batch samples";
}

TEST_F(RingJobTest, GroupsWaitForTheirSlowestAtEveryStep) {
    SimulateOptions groups = options({}, 4, 8);
    groups.mode = "hier:2:4";
    groups.trace = trace({slow(0, {.delay_s = 0.1})});
    // In the group of worker 0 a step is 0.1 delay, forward, and an all-reduce of two from backward
    // on: 2 * 1/2 * 1e6 / 1e7 s and 2 latencies; then the ring of all begins.
    const double step = 0.1 + 0.05 + 0.1 + 0.002 + kUpdate;
    const SimulationResult result = run(groups);
    EXPECT_EQ(result.updates, 2);
    EXPECT_NEAR(result.virtual_s, 2 * (4 * step + kReduce) + kUpdate, 1e-9);
}

/// No transfers, no updates: a member's round takes 0.1 s, the rider's mini-batch 0.25 s.
TEST_F(RingJobTest, ARiderGoesWithTheThirdRoundAfterItsArrival) {
    SimulateOptions two = options({.parameter_bytes = 1e-3, .latency_s = 0, .update_s = 0}, 2, 6);
    two.mode = "ring:1";
    two.trace = trace({slow(1, {.device = 0.4})});
    const SimulationResult result = run(two);
    // It arrives at 0.25, in round 3, when round 4 is granted: round 5 takes it and is over at 0.5.
    // Again from there: round 10, over at 1.0, when 10 + 2 mini-batches of 10 samples are applied.
    EXPECT_EQ(result.updates, 10);
    EXPECT_NEAR(result.virtual_s, 1.0, 1e-6);
    const WorkerReport& rider = result.workers.at(1);
    EXPECT_EQ(rider.pushes, 2);
    EXPECT_EQ(rider.lag_updates_sum, 8) << "four rounds before each";
    EXPECT_NEAR(rider.lag_sum, 2 * 4 * 0.5, 1e-9) << "of 10 samples each, B = 20";
    EXPECT_NEAR(rider.own_s, 0.25, 1e-6);
    EXPECT_EQ(result.workers.at(0).lag_max, 0);
    expect_accounts(result, 120);
}

TEST_F(RingJobTest, RidersSpareTheRingAStraggler) {
    SimulateOptions four = options({}, 4, 100);
    four.trace = trace({slow(3, {.device = 0.2})});  // 0.5 s
    const SimulationResult waiting = run(four);
    four.mode = "ring:3";
    const SimulationResult riding = run(four);
    expect_accounts(riding, 4000);
    const double three = 2 * 2.0 / 3 * 1e6 / 1e7 + 4 * 0.001;
    const double round = 0.05 + three + kUpdate;
    // The rider's transfers take some of one link from time to time, no more.
    EXPECT_NEAR(riding.virtual_s / static_cast<double>(riding.updates), round, 0.15 * round);
    EXPECT_LT(riding.virtual_s, 0.55 * waiting.virtual_s);
    EXPECT_GT(riding.workers.at(3).samples, 200) << "its gradients are applied";
    EXPECT_GT(riding.workers.at(3).lag_max, 0);
    EXPECT_TRUE(riding.switches.empty()) << "the fastest are members from the beginning";
}

TEST_F(RingJobTest, TheSlowestBecomesTheRider) {
    SimulateOptions four = options({}, 4, 200);
    four.mode = "ring:3";
    four.trace = trace({slow(0, {.device = 0.2})});
    const SimulationResult result = run(four);
    expect_accounts(result, 8000);
    ASSERT_EQ(result.switches.size(), 1U);
    EXPECT_THAT(result.switches[0].why, ::testing::HasSubstr("1 2 3"));
    ASSERT_TRUE(result.switches[0].in_force_s && result.switches[0].first_update_s);
    EXPECT_LT(*result.switches[0].first_update_s, 2.0)
        << "at most a few mini-batches of the slowest";
    EXPECT_GT(result.workers.at(0).lag, 0) << "it rides at the end";
    EXPECT_EQ(result.workers.at(3).lag, 0) << "and the first rider does not";
}

/// Riders 4 and 5 lose their parents and ride on, one or the other always at a mini-batch: the
/// fence waits for the one that each had begun before it, not for those after.
TEST_F(RingJobTest, AFenceDoesNotWaitForRidesBegunAfterIt) {
    SimulateOptions eight = options({}, 8, 200);
    eight.mode = "ring:4";
    eight.trace = trace({slow(0, {.device = 0.2}), slow(3, {.device = 0.2}),
                         slow(4, {.device = 0.17}), slow(5, {.device = 0.2})});
    const SimulationResult result = run(eight);
    ASSERT_GE(result.switches.size(), 1U);
    EXPECT_THAT(result.switches[0].why, ::testing::HasSubstr("1 2 6 7"));
    ASSERT_TRUE(result.switches[0].first_update_s) << "the plan comes into force";
    EXPECT_LT(*result.switches[0].first_update_s, 5.0) << "a few mini-batches of the slowest";
    EXPECT_GT(result.workers.at(6).samples, 2 * result.workers.at(0).samples);
}

TEST_F(RingJobTest, MembersWithoutSamplesPassOn) {
    SimulateOptions odd = options({}, 4, 3);
    odd.samples = 3 * 40 + 10;  // the last round has one lease
    const SimulationResult result = run(odd);
    EXPECT_EQ(result.updates, 4);
    expect_accounts(result, 130);
    EXPECT_NEAR(result.virtual_s, 4 * (0.05 + kReduce) + 3 * kUpdate, 1e-9);
}

TEST_F(RingJobTest, ALimitOfTimeEndsInMidRound) {
    SimulateOptions limited = options({}, 4, 100);
    limited.virtual_limit_s = 1.0;
    const SimulationResult result = run(limited);
    EXPECT_EQ(result.stop_reason, "time");
    EXPECT_EQ(result.virtual_s, 1.0);
    expect_accounts(result, 4 * 40);
}

}  // namespace
}  // namespace cohort
