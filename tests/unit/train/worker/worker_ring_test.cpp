// Members of a ring; the test plays the coordinator and, with LocalRounds, the ring.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "cohort/core/error.hpp"
#include "layers/optim/vector_math.hpp"
#include "support/train/worker_ring_rig.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort {
namespace {

using test::expect_equal;
using test::Reference;
using test::Ring;
using test::same_bits;
using testing::HasSubstr;

TEST(WorkerRing, OneMemberEqualsReplicaAndOptimizerBitForBit) {
    Ring ring("resnet20", 1);
    ring.start_all();
    test::LoneReplica lone(ring.job.graph);
    Replica& replica = lone.replica;
    replica.initialise(ring.job.options.seed);
    const auto optimizer =
        make_optimizer(ring.job.optimizer, ring.job.graph.parameters(), 0,
                       ring.job.graph.parameters().total(), *lone.device, replica.stream());
    std::int64_t position = 0;
    for (const std::int64_t count : {16, 16, 7}) {
        ring.send(ring.grant({count}));
        const auto report = ring.told<RoundReport>(MessageKind::kRoundDone);
        const BatchResult result =
            replica.train_step(view_of(ring.batch(position, count)), ring.job.options.seed);
        const double fraction = static_cast<double>(count) / 16;
        optimizer->update(replica.parameters(), replica.gradients(), fraction, 0.05);
        replica.fold_batch_statistics(0.1, fraction);
        ASSERT_EQ(report.members.size(), 1U);
        EXPECT_EQ(report.members[0].loss_sum, result.loss_sum);
        EXPECT_EQ(report.members[0].correct, result.correct);
        EXPECT_EQ(report.members[0].samples, count);
        position += count;
    }
    const std::vector<float> held = ring.gather(3);
    EXPECT_TRUE(
        same_bits(std::span(held).first(replica.parameters().size()), replica.parameters()));
    EXPECT_TRUE(same_bits(std::span(held).subspan(replica.parameters().size()), replica.state()));
    EXPECT_EQ(ring.rounds.made(), 0) << "nothing to exchange";
}

TEST(WorkerRing, MembersEqualOneProcessThatSumsInTheirOrder) {
    Ring ring("resnet20", 3);
    ring.start_all();
    Reference reference(ring);
    const std::vector<std::vector<std::int64_t>> counts{{16, 16, 16}, {16, 16, 5}, {0, 11, 0}};
    for (const auto& one : counts) {
        ring.send(ring.grant(one));  // also ahead of the reports
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto report = ring.told<RoundReport>(MessageKind::kRoundDone);
        const auto results = reference.round(counts[i]);
        EXPECT_EQ(report.round, i + 1);
        EXPECT_EQ(report.exchange_s, 0.5);
        ASSERT_EQ(report.members.size(), 3U);
        for (std::size_t member = 0; member < 3; ++member) {
            EXPECT_EQ(report.members[member].samples, counts[i][member]);
            EXPECT_EQ(report.members[member].loss_sum, results[member].loss_sum);
            EXPECT_TRUE(report.members[member].finite);
        }
    }
    expect_equal(ring.gather(3), reference.values());
    EXPECT_EQ(ring.rounds.made(), 3) << "one ring for equal members";
    EXPECT_GT(ring.rounds.pieces(), 7 * 20) << "pieces leave while backward runs";
}

/// A ring of one answers too.
TEST(WorkerRing, TheReporterTellsTheNormOfTheMeanGradientThatIsAskedFor) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{8, 8, 3}, std::vector<std::int64_t>{16}}) {
        const int workers = static_cast<int>(counts.size());
        Ring ring("smallcnn", workers);
        ring.start_all();
        Reference reference(ring);
        for (int i = 0; i < 4; ++i) {
            RoundOrder order = ring.grant(counts);
            order.ask_norm = i != 1;
            order.reporter = i == 3 ? workers - 1 : 0;
            ring.send(order);
            const auto report = ring.told<RoundReport>(MessageKind::kRoundDone);
            reference.round(counts);
            if (order.ask_norm) {
                const double squares = sum_of_squares(reference.gradient);
                EXPECT_NEAR(report.squares, squares, 1e-5 * squares);
            } else {
                EXPECT_TRUE(std::isnan(report.squares)) << "it was not asked for";
            }
        }
    }
}

TEST(WorkerRing, WaitingForABatchIsReported) {
    Ring ring("smallcnn", 1);
    ring.environment.clock = std::make_shared<test::SteppingClock>(1);
    ring.start_all();
    ring.send(ring.grant({16}));
    const auto report = ring.told<RoundReport>(MessageKind::kRoundDone);
    EXPECT_GE(report.members[0].input_s, 1) << "the clock goes on whenever it is looked at";
    EXPECT_GE(report.members[0].compute_s, 1);
}

TEST(WorkerRing, AVoidRoundChangesNothing) {
    Ring ring("resnet20", 2);
    ring.rounds.on_summary = [](std::uint64_t round, int rank, RoundSummary& summary) {
        summary.finite = summary.finite && !(round == 2 && rank == 1);
    };
    ring.start_all();
    Reference reference(ring);
    for (int i = 0; i < 2; ++i) {
        ring.send(ring.grant({8, 8}));
    }
    const auto before = ring.told<RoundReport>(MessageKind::kRoundDone);
    EXPECT_TRUE(before.members[1].finite);
    EXPECT_EQ(before.version, 1);
    const auto report = ring.told<RoundReport>(MessageKind::kRoundDone);
    EXPECT_EQ(report.version, 1);
    EXPECT_TRUE(report.members[0].finite);
    EXPECT_FALSE(report.members[1].finite);
    reference.round({8, 8});
    expect_equal(ring.gather(1), reference.values());
}

TEST(WorkerRing, AMemberWithoutAGrantIsNoStall) {
    Ring ring("smallcnn", 1, 1e-3);
    ring.start_all();
    ring.send(ring.grant({16}));
    EXPECT_EQ(ring.told<RoundReport>(MessageKind::kRoundDone).version, 1);
    EXPECT_TRUE(ring.begun(0));
    ring.until_waiting(0, "round grant");
    EXPECT_TRUE(ring.stalls(0).empty());
}

TEST(WorkerRing, AStopOfTheRankEndsAnEvaluationAtTheNextBatch) {
    Ring ring("smallcnn", 1);
    const auto clock = std::make_shared<test::SteppingClock>(1);
    std::atomic<int> stop_at{std::numeric_limits<int>::max()};
    ring.environment.clock = clock;
    ring.environment.stop_requested = [&] { return clock->looks() >= stop_at; };
    ring.start_all();
    ring.until_waiting(0, "round grant");
    EXPECT_TRUE(ring.quiet());
    stop_at = clock->looks() + 2;  // evaluation begins, one batch is done
    RoundOrder order;
    order.evaluation = 9;
    order.evaluators = {0};
    ring.send(order);
    EXPECT_EQ(ring.told<EvaluationProgress>(MessageKind::kEvaluating).done, 16);
    ring.told<StopRequest>(MessageKind::kStopRequested);
    EXPECT_TRUE(ring.quiet());
    ring.order(0, MessageKind::kStop, Empty{});
    ring.told<Farewell>(MessageKind::kFarewell);
    ring.stop();
}

TEST(WorkerRing, GoesOnFromACheckpointBitForBit) {
    Ring first("resnet20", 2);
    first.start_all();
    first.send(first.grant({16, 16}));
    RoundOrder second = first.grant({16, 9});
    const std::string folder = first.job.options.out + "-checkpoints";
    std::filesystem::create_directories(folder);
    second.snapshot.checkpoint = checkpoint_path(folder, 57);
    first.send(second);
    first.told<RoundReport>(MessageKind::kRoundDone);
    first.told<RoundReport>(MessageKind::kRoundDone);
    const auto saved = first.told<SavedPart>(MessageKind::kSaved);
    ASSERT_EQ(saved.error, "");
    EXPECT_EQ(saved.checkpoint, second.snapshot.checkpoint);
    RunSnapshot manifest;
    manifest.version = 2;
    manifest.parameters = first.job.graph.parameters().total();
    manifest.shards = {saved.file};
    write_manifest(saved.checkpoint, manifest, first.job.hdf5);

    first.send(first.grant({12, 16}));
    first.told<RoundReport>(MessageKind::kRoundDone);
    const std::vector<float> straight = first.gather(3);

    // The same workers once more, from the file.
    for (int worker = 0; worker < 2; ++worker) {
        first.order(worker, MessageKind::kBegin,
                    BeginOrder{.checkpoint = saved.checkpoint, .version = 2});
    }
    first.position -= 28;
    first.send(first.grant({12, 16}));
    first.told<RoundReport>(MessageKind::kRoundDone);
    EXPECT_TRUE(same_bits(first.gather(3), straight));
}

TEST(WorkerRing, EvaluationPartsCoverTheTestGroup) {
    Ring ring("smallcnn", 3);
    ring.start_all();
    const auto evaluated = [&ring](std::uint64_t id) {
        std::int64_t samples = 0;
        std::set<std::int32_t> parts;
        for (int i = 0; i < 3; ++i) {
            const auto part = ring.told<EvaluatedPart>(MessageKind::kEvaluated);
            EXPECT_EQ(part.id, id);
            parts.insert(part.part);
            samples += part.samples;
        }
        EXPECT_EQ(parts, (std::set<std::int32_t>{0, 1, 2}));
        EXPECT_EQ(samples, test::kWorkerTest);
    };
    RoundOrder alone;
    alone.evaluation = 4;
    alone.evaluators = {0, 1, 2};
    ring.send(alone);
    evaluated(4);
    EXPECT_TRUE(ring.quiet()) << "no round, no report";
}

TEST(WorkerRing, AnEvaluationFollowsItsRound) {
    Ring ring("smallcnn", 1);
    ring.start_all();
    RoundOrder order = ring.grant({16});
    order.evaluation = 9;
    order.evaluators = {0};
    ring.send(order);
    ring.told<RoundReport>(MessageKind::kRoundDone);
    const auto part = ring.told<EvaluatedPart>(MessageKind::kEvaluated);
    EXPECT_EQ(part.id, 9U);
    EXPECT_EQ(part.samples, test::kWorkerTest);
}

TEST(WorkerRing, GrantsBeforeStopAreCarriedOut) {
    Ring ring("smallcnn", 2);
    ring.start_all();
    for (int i = 0; i < 2; ++i) {
        const RoundOrder order = ring.grant({8, 8});
        ring.order(0, MessageKind::kRound, order);
        ring.order(1, MessageKind::kRound, order);
    }
    ring.order(0, MessageKind::kStop, Empty{});
    ring.told<RoundReport>(MessageKind::kRoundDone);
    ring.told<RoundReport>(MessageKind::kRoundDone);
    EXPECT_GT(ring.told<Farewell>(MessageKind::kFarewell).peak_bytes, 0U);
    ring.order(1, MessageKind::kStop, Empty{});
    EXPECT_GT(ring.told<Farewell>(MessageKind::kFarewell).peak_bytes, 0U);
}

/// Ordered to take a new parent's parameters, a rider goes on with those that it has unless a
/// member was lost since.
TEST(WorkerRing, ARiderKeepsItsParametersUntilALoss) {
    for (const std::uint64_t epoch : {0, 1}) {
        Ring ring("smallcnn", 2);
        ring.start_all();
        constexpr auto kRole = static_cast<MessageKind>(RingMessageKind::kRole);
        constexpr auto kSendState = static_cast<MessageKind>(RingMessageKind::kSendState);
        constexpr auto kTaken = static_cast<MessageKind>(RingMessageKind::kRoleTaken);
        ring.order(1, kRole, RoleOrder{.number = 1, .role = RingRole::kRider});
        EXPECT_EQ(ring.told<RoleTaken>(kTaken).number, 1U);
        ring.order(
            1, kRole,
            RoleOrder{.epoch = epoch, .number = 2, .role = RingRole::kRider, .afresh = true});
        EXPECT_EQ(ring.told<RoleTaken>(kTaken).number, 2U);
        ring.lease(1, 1, 0, 16);
        if (epoch > 0) {
            EXPECT_TRUE(ring.quiet()) << "what it has may be of a lost member alone";
            ring.order(0, kSendState, SendStateOrder{.epoch = epoch, .worker = 1});
        }
        std::set<std::uint16_t> came;  // in either order
        while (came.size() < 2) {
            const auto message =
                ring.network.messenger(0).mailbox(Port::kCoordinator).receive(test::kPatience);
            ASSERT_TRUE(message) << "it waits for parameters";
            came.insert(message->kind);
        }
        EXPECT_EQ(came, (std::set{static_cast<std::uint16_t>(MessageKind::kPushReport),
                                  static_cast<std::uint16_t>(MessageKind::kPushReceived)}));
    }
}

TEST(WorkerRing, StopsBeforeItBegins) {
    Ring ring("smallcnn", 1);
    ring.start();
    ring.order(0, MessageKind::kStop, Empty{});
    ring.told<Farewell>(MessageKind::kFarewell);
    EXPECT_FALSE(ring.error(0));
}

TEST(WorkerRing, ALeaseThatIsNotTheGrantsEndsTheRun) {
    Ring ring("smallcnn", 1);
    ring.start_all();
    RoundOrder order = ring.grant({16});
    order.members[0].lease += 1;
    ring.send(order);
    try {
        ASSERT_TRUE(ring.error(0));
        std::rethrow_exception(ring.error(0));
    } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::kPeer);
        EXPECT_THAT(error.what(), HasSubstr("order of the grants"));
    }
}

}  // namespace
}  // namespace cohort
