// A worker of parameter servers; the test plays coordinator and servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "cohort/core/error.hpp"
#include "layers/optim/vector_math.hpp"
#include "sched/session/gradient_statistics.hpp"
#include "support/train/worker_rig.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/run/evaluation.hpp"

namespace cohort {
namespace {

using test::Values;
using test::WorkerRig;
using testing::HasSubstr;

bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// What a replica of its own makes of the batch.
struct Reference : test::LoneReplica {
    Reference(WorkerRig& rig, const Values& values, std::int64_t position, std::int64_t count)
        : LoneReplica(rig.job.graph) {
        std::copy(values.parameters.begin(), values.parameters.end(), replica.parameters().begin());
        std::copy(values.state.begin(), values.state.end(), replica.state().begin());
        result = replica.train_step(view_of(rig.batch(position, count)), rig.job.options.seed);
    }
    BatchResult result;
};

/// Takes the push from all servers and compares it with the reference, bit for bit.
void expect_push(WorkerRig& rig, Reference& reference, std::uint64_t sequence) {
    for (const ShardRange& shard : rig.servers->shards()) {
        PushId id;
        const std::vector<float> got = rig.servers->pushed(shard.part, id);
        EXPECT_EQ(id, (PushId{.worker = 0, .incarnation = 0, .sequence = sequence}));
        const auto count = static_cast<std::size_t>(shard.parameters());
        ASSERT_EQ(got.size(), static_cast<std::size_t>(shard.floats()));
        EXPECT_TRUE(same_bits(
            std::span(got).first(count),
            reference.replica.gradients().subspan(static_cast<std::size_t>(shard.begin), count)))
            << "gradient of shard " << shard.part;
        if (shard.state > 0) {
            EXPECT_TRUE(same_bits(std::span(got).subspan(count), reference.replica.batch_state()));
        }
    }
}

class WorkerServers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Shards, WorkerServers, testing::Values(1, 2, 3));

TEST_P(WorkerServers, GradientsAndStatisticsArriveExactlyAsAReplicaMakesThem) {
    WorkerRig rig("resnet20", 1, GetParam());
    ASSERT_GT(rig.job.graph.state().total(), 0);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.lease(0, 7, 0, 16);
    rig.lease(0, 9, 16, 5);
    const Values first(rig.job.graph, 1);
    const Values second(rig.job.graph, 2);
    std::int64_t position = 0;
    std::uint64_t push = 0;
    for (const auto& [values, version, lease, count] :
         {std::tuple(&first, 4, 7U, 16), std::tuple(&second, 6, 9U, 5)}) {
        rig.servers->send_all(0, *values, {.version = version});
        const auto report = rig.told<PushReport>(MessageKind::kPushReport);
        Reference reference(rig, *values, position, count);
        expect_push(rig, reference, ++push);
        EXPECT_EQ(report.ticket.id.sequence, push);
        EXPECT_EQ(report.ticket.lease, lease);
        EXPECT_EQ(report.ticket.version, version);
        EXPECT_EQ(report.ticket.samples, count);
        EXPECT_EQ(report.ticket.correct, reference.result.correct);
        EXPECT_EQ(report.ticket.loss_sum, reference.result.loss_sum);
        EXPECT_TRUE(report.ticket.finite);
        EXPECT_NEAR(report.ticket.gradient_norm, norm(reference.replica.gradients()),
                    1e-9 * report.ticket.gradient_norm);
        EXPECT_GT(report.times.compute_s, 0);
        position += count;
    }
    EXPECT_TRUE(rig.quiet()) << "no parameters, no work";
}

/// The same gradient up to rounding; smallcnn, whose loss knows no batch statistics.
TEST_P(WorkerServers, AHalvedLeaseSaysTheNormsOfBothHalves) {
    WorkerRig rig("smallcnn", 1, GetParam());
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    constexpr std::int64_t kCount = 9;
    rig.order(0, MessageKind::kLease,
              LeaseOrder{.lease = 7, .position = 0, .count = kCount, .work = {}, .halves = true});
    const Values values(rig.job.graph, 1);
    rig.servers->send_all(0, values, {.version = 4});
    const auto report = rig.told<PushReport>(MessageKind::kPushReport);
    Reference whole(rig, values, 0, kCount);
    EXPECT_TRUE(report.halves);
    EXPECT_TRUE(report.ticket.finite);
    EXPECT_EQ(report.ticket.samples, kCount);
    EXPECT_EQ(report.ticket.correct, whole.result.correct);
    EXPECT_NEAR(report.ticket.loss_sum, whole.result.loss_sum, 1e-4 * report.ticket.loss_sum);
    const std::span<const float> gradient = whole.replica.gradients();
    EXPECT_NEAR(report.ticket.gradient_norm, norm(gradient), 1e-4 * report.ticket.gradient_norm);
    constexpr std::int64_t kFirst = GradientStatistics::first_half(kCount);
    Reference first(rig, values, 0, kFirst);
    Reference second(rig, values, kFirst, kCount - kFirst);
    EXPECT_NEAR(report.first_squares, sum_of_squares(first.replica.gradients()),
                1e-6 * report.first_squares);
    EXPECT_NEAR(report.second_squares, sum_of_squares(second.replica.gradients()),
                1e-6 * report.second_squares);
    for (const ShardRange& shard : rig.servers->shards()) {
        PushId id;
        const std::vector<float> got = rig.servers->pushed(shard.part, id);
        for (std::int64_t i = 0; i < shard.parameters(); ++i) {
            ASSERT_NEAR(got[static_cast<std::size_t>(i)],
                        gradient[static_cast<std::size_t>(shard.begin + i)], 1e-5);
        }
    }
}

TEST(WorkerServersStart, OnlyOnOneVersionOfAllShardsAndOnTheNewest) {
    WorkerRig rig("smallcnn", 1, 2);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.lease(0, 1, 0, 16);
    rig.lease(0, 2, 16, 16);
    const Values old(rig.job.graph, 1);
    const Values fresh(rig.job.graph, 2);
    rig.servers->send(0, 0, old, {.version = 4});
    rig.servers->send(0, 0, fresh, {.version = 5});
    EXPECT_TRUE(rig.quiet());
    rig.servers->send(1, 0, fresh, {.version = 5});
    const auto report = rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_EQ(report.ticket.version, 5);
    Reference reference(rig, fresh, 0, 16);
    expect_push(rig, reference, 1);
    EXPECT_TRUE(rig.quiet()) << "one set is leave for one mini-batch";
}

TEST(WorkerServersStart, ARefusedPushIsFollowedByTheSameVersionAgain) {
    WorkerRig rig("smallcnn", 1, 2);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.lease(0, 1, 0, 16);
    rig.lease(0, 2, 16, 16);
    Values broken(rig.job.graph, 1);
    broken.parameters[3] = std::numeric_limits<float>::quiet_NaN();
    rig.servers->send_all(0, broken, {.version = 3});
    const auto bad = rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_FALSE(bad.ticket.finite);
    EXPECT_EQ(bad.ticket.lease, 1U);
    const Values whole(rig.job.graph, 1);
    rig.servers->send_all(0, whole, {.version = 3});
    const auto good = rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_TRUE(good.ticket.finite);
    EXPECT_EQ(good.ticket.lease, 2U);
    EXPECT_EQ(good.ticket.id.sequence, 2U);
}

TEST(WorkerServersStart, WaitsForALeaseWithParametersInHand) {
    WorkerRig rig("smallcnn", 1, 1);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.servers->send_all(0, Values(rig.job.graph, 1), {.version = 0});
    EXPECT_TRUE(rig.quiet());
    rig.lease(0, 5, 32, 8);
    EXPECT_EQ(rig.told<PushReport>(MessageKind::kPushReport).ticket.lease, 5U);
}

TEST(WorkerServersEvaluation, PartsAddUpToTheWholeAndTrainingGoesOn) {
    WorkerRig rig("smallcnn", 1, 2);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    const Values values(rig.job.graph, 4);
    BatchResult sum;
    for (std::int32_t part = 0; part < 3; ++part) {
        rig.servers->send_all(0, values, {.version = 2, .evaluation = {11, part, 3}});
    }
    rig.lease(0, 1, 0, 16);
    for (std::int32_t part = 0; part < 3; ++part) {
        const auto done = rig.told<EvaluatedPart>(MessageKind::kEvaluated);
        EXPECT_EQ(done.id, 11U);
        EXPECT_EQ(done.part, part) << "in order";
        sum.samples += done.samples;
        sum.correct += done.correct;
        sum.loss_sum += done.loss_sum;
    }
    EXPECT_EQ(rig.told<PushReport>(MessageKind::kPushReport).ticket.version, 2);

    test::LoneReplica whole(rig.job.graph);
    std::copy(values.parameters.begin(), values.parameters.end(),
              whole.replica.parameters().begin());
    std::copy(values.state.begin(), values.state.end(), whole.replica.state().begin());
    Loader loader(rig.job.test_set, {});
    const auto all =
        evaluate_range(whole.replica, loader, 0, test::kWorkerTest, 16, [] { return false; });
    EXPECT_EQ(sum.samples, test::kWorkerTest);
    EXPECT_EQ(sum.correct, all->correct);
    EXPECT_NEAR(sum.loss_sum, all->loss_sum, 1e-4 * all->loss_sum);
}

TEST(WorkerServersEvaluation, SaysOnceASecondHowFarItIs) {
    WorkerRig rig("smallcnn", 1, 1);
    rig.environment.clock = std::make_shared<test::SteppingClock>(0.5);  // a look after each batch
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.servers->send_all(0, Values(rig.job.graph, 4), {.version = 2, .evaluation = {11, 0, 1}});
    for (const std::int64_t done : {32, 50}) {
        const auto progress = rig.told<EvaluationProgress>(MessageKind::kEvaluating);
        EXPECT_EQ(progress.id, 11U);
        EXPECT_EQ(progress.part, 0);
        EXPECT_EQ(progress.done, done);
        EXPECT_EQ(progress.samples, test::kWorkerTest);
    }
    EXPECT_EQ(rig.told<EvaluatedPart>(MessageKind::kEvaluated).samples, test::kWorkerTest);
}

TEST(WorkerServersEvaluation, AStopOfTheRankEndsItAtTheNextBatch) {
    WorkerRig rig("smallcnn", 1, 1);
    const auto clock = std::make_shared<test::SteppingClock>(1);
    std::atomic<int> stop_at{std::numeric_limits<int>::max()};
    rig.environment.clock = clock;
    rig.environment.stop_requested = [&] { return clock->looks() >= stop_at; };
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.until_waiting(0, "parameters");
    EXPECT_TRUE(rig.quiet());
    stop_at = clock->looks() + 3;  // parameters are there, evaluation begins, one batch is done
    rig.servers->send_all(0, Values(rig.job.graph, 4), {.version = 2, .evaluation = {11, 0, 1}});
    EXPECT_EQ(rig.told<EvaluationProgress>(MessageKind::kEvaluating).done, 16);
    rig.told<StopRequest>(MessageKind::kStopRequested);
    EXPECT_TRUE(rig.quiet()) << "neither more batches nor a report";
    rig.order(0, MessageKind::kStop, Empty{});
    rig.told<Farewell>(MessageKind::kFarewell);
}

TEST(WorkerServersWaits, OnlyWhatAPeerOwesIsAStall) {
    WorkerRig rig("smallcnn", 1, 1, 1e-3);
    rig.start();
    EXPECT_FALSE(rig.begun(0));
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    rig.until_waiting(0, "parameters");
    for (const Stall& stall : rig.stalls(0)) {
        EXPECT_FALSE(stall.fatal) << "servers may restore theirs";
    }
    rig.lease(0, 1, 0, 16);
    const Values values(rig.job.graph, 1);
    rig.servers->send_all(0, values, {.version = 0});
    rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_TRUE(rig.begun(0));
    rig.until_waiting(0, "parameters");
    const auto owed = rig.stalls(0);
    ASSERT_EQ(owed.size(), 1U);
    EXPECT_TRUE(owed[0].fatal);
    EXPECT_EQ(owed[0].missing, std::vector<int>{0});
    rig.servers->send_all(0, values, {.version = 1});
    rig.until_waiting(0, "lease");
    EXPECT_TRUE(rig.stalls(0).empty()) << "another worker is slow with the last mini-batch";
    rig.lease(0, 2, 16, 16);
    EXPECT_EQ(rig.told<PushReport>(MessageKind::kPushReport).ticket.lease, 2U);
}

TEST(WorkerServersStop, EndsInEveryState) {
    enum State { kNew, kWithoutParameters, kWithoutLease, kPushed };
    for (const State state : {kNew, kWithoutParameters, kWithoutLease, kPushed}) {
        WorkerRig rig("smallcnn", 1, 2);
        rig.start();
        if (state != kNew) {
            rig.order(0, MessageKind::kBegin, BeginOrder{});
        }
        if (state == kWithoutParameters || state == kPushed) {
            rig.lease(0, 1, 0, 16);
        }
        if (state == kWithoutLease || state == kPushed) {
            rig.servers->send_all(0, Values(rig.job.graph, 1), {.version = 0});
        }
        if (state == kPushed) {
            rig.told<PushReport>(MessageKind::kPushReport);
            rig.lease(0, 2, 16, 16);
        } else {
            EXPECT_TRUE(rig.quiet());
        }
        rig.order(0, MessageKind::kStop, Empty{});
        EXPECT_GT(rig.told<Farewell>(MessageKind::kFarewell).peak_bytes, 0U) << "state " << state;
        EXPECT_FALSE(rig.error(0));
        EXPECT_TRUE(rig.quiet()) << "the last words";
    }
}

TEST(WorkerServersStop, TakesInParametersThatAreUnderWay) {
    WorkerRig rig("smallcnn", 1, 1);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    const ShardRange& shard = rig.servers->shards()[0];
    const auto bytes = static_cast<std::size_t>(shard.floats()) * sizeof(float);
    const std::vector<std::byte> data(bytes);
    const auto kind = static_cast<std::uint16_t>(MessageKind::kParameters);
    const Address worker{rig.network.map().rank_of_worker(0), Port::kWorker};
    const auto coming = rig.network.messenger(0).start_transfer(
        worker, Port::kServer, kind, encode(ParametersHeader{.version = 1, .end = shard.end}), data,
        ChunkOrder::kForward, nullptr);
    coming->release(bytes / 2);
    rig.order(0, MessageKind::kStop, Empty{});
    EXPECT_TRUE(rig.quiet()) << "it is still being written to";
    coming->release(bytes);
    rig.told<Farewell>(MessageKind::kFarewell);
    EXPECT_FALSE(rig.error(0));
}

TEST(WorkerServersStop, ARequestOfTheRankGoesToTheCoordinatorOnce) {
    WorkerRig rig("smallcnn", 1, 1);
    std::atomic<bool> stop{false};
    rig.environment.stop_requested = [&stop] { return stop.load(); };
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    EXPECT_TRUE(rig.quiet());
    stop = true;
    EXPECT_EQ(rig.told<StopRequest>(MessageKind::kStopRequested).rank, 1);
    rig.lease(0, 1, 0, 16);
    rig.servers->send_all(0, Values(rig.job.graph, 1), {.version = 0});
    rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_TRUE(rig.quiet()) << "no second request";
    rig.order(0, MessageKind::kStop, Empty{});
    rig.told<Farewell>(MessageKind::kFarewell);
}

template <class E>
void expect_error(const std::exception_ptr& error, const std::string& part) {
    ASSERT_TRUE(error);
    try {
        std::rethrow_exception(error);
    } catch (const Error& known) {
        EXPECT_EQ(known.exit_code(), E("").exit_code()) << known.what();
        EXPECT_THAT(known.what(), HasSubstr(part));
        EXPECT_THAT(known.what(), HasSubstr("worker 0"));
    }
}

TEST(WorkerServersErrors, OrdersThatMakeNoSenseEndTheRun) {
    {
        WorkerRig rig("smallcnn", 1, 1);
        rig.start();
        rig.order(0, MessageKind::kRound, RoundOrder{});
        expect_error<PeerError>(rig.error(0), "not for workers of this run");
    }
    {
        WorkerRig rig("smallcnn", 1, 1);
        rig.start();
        rig.lease(0, 1, test::kWorkerTrain - 1, 2);
        expect_error<UsageError>(rig.error(0), "");
    }
    {
        WorkerRig rig("smallcnn", 1, 1);
        rig.start();
        rig.order(0, MessageKind::kBegin, BeginOrder{});
        rig.lease(0, 1, 0, 16);
        rig.servers->send_all(0, Values(rig.job.graph, 1), {.version = 4});
        rig.told<PushReport>(MessageKind::kPushReport);  // it has version 4
        rig.servers->send_all(0, Values(rig.job.graph, 1), {.version = 3});
        expect_error<PeerError>(rig.error(0), "older");
    }
}

}  // namespace
}  // namespace cohort
