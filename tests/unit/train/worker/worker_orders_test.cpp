// A worker of parameter servers whose leases come back, whose rank is lost and comes back: orders
// and parameters in every order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "support/train/worker_rig.hpp"
#include "train/worker/servers/start_permit.hpp"

namespace cohort {
namespace {

using test::Values;
using test::WorkerRig;

/// A clock that can hold who looks at it: a worker looks between any two layers.
class GateClock final : public Clock {
public:
    [[nodiscard]] Seconds now() const override {
        std::unique_lock lock(mutex_);
        ++looks_;
        if (looks_ == stop_at_) {
            held_ = true;
            changed_.notify_all();
            changed_.wait(lock, [this] { return !held_; });
        }
        return Seconds(1e-3 * looks_);
    }
    /// The look that comes `looks` from now on is held.
    void stop_after(int looks) {
        const std::lock_guard lock(mutex_);
        stop_at_ = looks_ + looks;
    }
    void until_held() {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, test::kPatience, [this] { return held_; })) {
            throw std::runtime_error("nobody looks at the clock");
        }
    }
    void open() {
        const std::lock_guard lock(mutex_);
        held_ = false;
        changed_.notify_all();
    }
    [[nodiscard]] int looks() const {
        const std::lock_guard lock(mutex_);
        return looks_;
    }

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable int looks_ = 0;
    mutable bool held_ = false;
    int stop_at_ = -1;
};

/// One worker of two servers; the test holds it where it likes.
class WorkerOrders : public testing::Test {
protected:
    /// Looks from the leave to the first question between layers: the end of the exchange, of the
    /// wait for input, and that question.
    static constexpr int kFirstQuestion = 3;

    explicit WorkerOrders(const std::string& model = "smallcnn") : rig(model, 1, 2) {}
    void SetUp() override {
        rig.job.options.inject = "rank=2,cpu=1";
        rig.environment.clock = clock;
        rig.start();
        rig.order(0, MessageKind::kBegin, BeginOrder{});
        rig.until_waiting(0, "parameters");
    }
    void TearDown() override { clock->open(); }

    void leases(std::uint64_t first, std::uint64_t last) {
        for (std::uint64_t lease = first; lease <= last; ++lease) {
            rig.lease(0, lease, static_cast<std::int64_t>(8 * lease), 8);
        }
    }
    void parameters(std::int64_t version, std::uint32_t incarnation = 0) {
        rig.servers->send_all(0, values, {.version = version, .incarnation = incarnation});
    }
    void revoke(std::vector<std::uint64_t> revoked, std::int64_t version) {
        rig.order(0, MessageKind::kRevoke,
                  RevokeOrder{.leases = std::move(revoked), .up_to = 0, .version = version});
    }
    /// The worker computes on the oldest lease, on parameters of `version`, and is held before the
    /// first layer.
    void hold_in(std::int64_t version) {
        clock->stop_after(kFirstQuestion);
        parameters(version);
        clock->until_held();
    }
    void expect_push(std::uint64_t lease, std::int64_t version) {
        const auto report = rig.told<PushReport>(MessageKind::kPushReport);
        EXPECT_EQ(report.ticket.lease, lease);
        EXPECT_EQ(report.ticket.version, version);
        EXPECT_FALSE(report.given_up);
    }

    std::shared_ptr<GateClock> clock = std::make_shared<GateClock>();
    WorkerRig rig;
    Values values{rig.job.graph, 1};
};

TEST_F(WorkerOrders, AnInterruptedWorkerWaitsForTheParametersThatFollow) {
    leases(1, 2);
    hold_in(4);
    revoke({1}, 5);
    clock->open();
    EXPECT_TRUE(rig.quiet()) << "it does not go on with what it has";
    parameters(5);
    expect_push(2, 5);
    EXPECT_TRUE(rig.quiet());
}

TEST_F(WorkerOrders, ParametersMayComeBeforeTheOrderThatTheyBelongTo) {
    leases(1, 3);
    hold_in(4);
    parameters(5);
    revoke({1}, 5);
    clock->open();
    expect_push(2, 5);
    EXPECT_TRUE(rig.quiet()) << "leave for one mini-batch";
}

TEST_F(WorkerOrders, AnOrderThatComesAfterThePushChangesNothing) {
    leases(1, 3);
    parameters(4);
    expect_push(1, 4);
    revoke({1}, 5);
    EXPECT_TRUE(rig.quiet());
    parameters(5);
    expect_push(2, 5);
    parameters(6);
    expect_push(3, 6);
    revoke({1, 2}, 5);  // long overtaken
    EXPECT_TRUE(rig.quiet());
}

TEST_F(WorkerOrders, WhoHadStartedOnTheNewParametersKeepsItsLeave) {
    parameters(4);  // not used: no lease
    rig.until_waiting(0, "lease");
    clock->stop_after(kFirstQuestion - 1);  // its leave is old: no exchange ends
    parameters(5);
    rig.until_waiting(0, "lease");
    leases(1, 3);
    clock->until_held();
    revoke({1}, 5);
    clock->open();
    expect_push(2, 5);
    EXPECT_TRUE(rig.quiet());
}

TEST_F(WorkerOrders, APushThatWillBeRefusedGivesTheLeaveBack) {
    parameters(4);
    rig.until_waiting(0, "lease");
    parameters(5);
    rig.until_waiting(0, "lease");
    leases(1, 3);
    expect_push(1, 5);
    EXPECT_TRUE(rig.quiet());
    revoke({1}, 5);
    expect_push(2, 5);
    EXPECT_TRUE(rig.quiet());
}

TEST_F(WorkerOrders, BatchesOfRevokedLeasesAreSkipped) {
    leases(1, 4);
    revoke({2, 3}, 0);
    parameters(4);
    expect_push(1, 4);
    parameters(5);
    expect_push(4, 5);
    leases(5, 6);
    revoke({5, 6}, 0);
    parameters(6);
    rig.until_waiting(0, "lease");
    leases(7, 7);
    expect_push(7, 6);
}

TEST_F(WorkerOrders, WithoutALeaseTheOldLeaveIsGone) {
    parameters(4);
    rig.until_waiting(0, "lease");
    revoke({}, 5);
    leases(1, 2);
    EXPECT_TRUE(rig.quiet()) << "parameters 5 are on their way";
    parameters(5);
    expect_push(1, 5);
}

TEST_F(WorkerOrders, TwoInterruptionsInARow) {
    leases(1, 3);
    hold_in(4);
    revoke({1}, 5);
    revoke({2}, 6);
    parameters(5);
    clock->open();
    EXPECT_TRUE(rig.quiet()) << "5 is too old already";
    parameters(6);
    expect_push(3, 6);
    EXPECT_TRUE(rig.quiet());
}

TEST_F(WorkerOrders, ASecondInterruptionThatComesLate) {
    leases(1, 4);
    parameters(4);
    expect_push(1, 4);
    parameters(5);
    expect_push(2, 5);
    parameters(6);
    expect_push(3, 6);
    revoke({1}, 5);
    revoke({2}, 6);
    EXPECT_TRUE(rig.quiet()) << "what followed them has been done";
    revoke({3}, 0);
    expect_push(4, 6);
}

TEST_F(WorkerOrders, InAnEvaluation) {
    leases(1, 2);
    clock->stop_after(3);
    rig.servers->send_all(0, values, {.version = 4, .evaluation = {7, 0, 1}});
    clock->until_held();
    revoke({1}, 5);
    clock->open();
    EXPECT_EQ(rig.told<EvaluatedPart>(MessageKind::kEvaluated).samples, test::kWorkerTest);
    EXPECT_TRUE(rig.quiet());
    parameters(5);
    expect_push(2, 5);
}

/// Its gradient leaves in many pieces.
struct WorkerOrdersDeep : WorkerOrders {
    WorkerOrdersDeep() : WorkerOrders("resnet20") {}
};

TEST_F(WorkerOrdersDeep, WhatHasBegunToLeaveLeavesToItsEndAndIsGivenUp) {
    leases(1, 3);
    const int before = clock->looks();
    parameters(4);
    expect_push(1, 4);
    rig.until_waiting(0, "parameters");
    const int looks = clock->looks() - before;
    for (const ShardRange& shard : rig.servers->shards()) {
        PushId id;
        (void)rig.servers->pushed(shard.part, id);
    }
    clock->stop_after(looks - 8);  // among the last questions of the step
    parameters(5);
    clock->until_held();
    revoke({2}, 6);
    clock->open();
    const auto report = rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_TRUE(report.given_up);
    EXPECT_EQ(report.ticket.lease, 2U);
    for (const ShardRange& shard : rig.servers->shards()) {
        PushId id;
        EXPECT_EQ(rig.servers->pushed(shard.part, id).size(),
                  static_cast<std::size_t>(shard.floats()));
        EXPECT_EQ(id, report.ticket.id);
    }
    parameters(6);
    expect_push(3, 6);
}

TEST_F(WorkerOrders, AValidationLeaseLeavesTheLeaveAlone) {
    constexpr std::uint64_t kValidation = (std::uint64_t{1} << 63U) | 1U;
    rig.order(0, MessageKind::kLease,
              LeaseOrder{.lease = kValidation, .position = 40, .count = 8, .validation = true});
    leases(1, 2);
    parameters(4);
    const auto report = rig.told<PushReport>(MessageKind::kPushReport);
    EXPECT_TRUE(report.validation);
    EXPECT_EQ(report.ticket.lease, kValidation);
    EXPECT_EQ(report.ticket.version, 4);
    expect_push(1, 4);
    EXPECT_TRUE(rig.quiet());
}

class WorkerJoins : public WorkerOrders {
protected:
    void join(std::uint32_t incarnation, std::int64_t version, std::uint64_t leases_up_to) {
        rig.order(0, MessageKind::kJoin, JoinOrder{incarnation, version, leases_up_to});
    }
    void expect_first_push(std::uint64_t lease, std::int64_t version) {
        const auto report = rig.told<PushReport>(MessageKind::kPushReport);
        EXPECT_EQ(report.ticket.id, (PushId{.worker = 0, .incarnation = 1, .sequence = 1}));
        EXPECT_EQ(report.ticket.lease, lease);
        EXPECT_EQ(report.ticket.version, version);
        EXPECT_TRUE(rig.quiet()) << "one leave";
    }
};

TEST_F(WorkerJoins, InTheMiddleOfAMiniBatch) {
    leases(1, 3);
    hold_in(4);
    join(1, 9, 3);
    leases(4, 5);
    clock->open();
    EXPECT_TRUE(rig.quiet());
    parameters(6);  // for the incarnation that is over
    EXPECT_TRUE(rig.quiet());
    parameters(9, 1);
    expect_first_push(4, 9);
}

TEST_F(WorkerJoins, ParametersMayComeBeforeTheOrder) {
    leases(1, 2);
    hold_in(4);
    parameters(9, 1);
    clock->open();
    expect_push(1, 4);
    EXPECT_TRUE(rig.quiet()) << "not its incarnation yet";
    join(1, 9, 2);
    leases(3, 3);
    expect_first_push(3, 9);
}

TEST_F(WorkerJoins, TheVersionMayBeTheOneThatItHas) {
    leases(1, 2);
    hold_in(4);
    join(1, 4, 2);
    leases(3, 5);
    clock->open();
    EXPECT_TRUE(rig.quiet());
    parameters(4, 1);
    expect_first_push(3, 4);
}

TEST_F(WorkerJoins, WaitingForParametersOfWhichAPartWillNeverCome) {
    leases(1, 2);
    rig.servers->send(0, 0, values, {.version = 4});
    const ShardRange& shard = rig.servers->shards()[1];
    const auto bytes = static_cast<std::size_t>(shard.floats()) * sizeof(float);
    const std::vector<std::byte> data(bytes);
    const auto stuck = rig.network.messenger(1).start_transfer(
        {rig.network.map().rank_of_worker(0), Port::kWorker}, Port::kServer,
        static_cast<std::uint16_t>(MessageKind::kParameters),
        encode(ParametersHeader{.version = 4, .server = 1, .begin = shard.begin, .end = shard.end}),
        data, ChunkOrder::kForward, nullptr);
    stuck->release(bytes / 2);
    EXPECT_TRUE(rig.quiet());
    join(1, 9, 2);
    leases(3, 4);
    parameters(9, 1);
    expect_first_push(3, 9);
    rig.order(0, MessageKind::kStop, Empty{});
    rig.told<Farewell>(MessageKind::kFarewell);
    EXPECT_FALSE(rig.error(0));
}

TEST_F(WorkerJoins, EndsAnEvaluationOfBefore) {
    leases(1, 2);
    clock->stop_after(3);
    rig.servers->send_all(0, values, {.version = 4, .evaluation = {7, 0, 1}});
    clock->until_held();
    join(1, 9, 2);
    leases(3, 4);
    parameters(9, 1);
    clock->open();
    expect_first_push(3, 9);
}

TEST_F(WorkerOrders, AStopEndsAMiniBatchBetweenTwoLayers) {
    leases(1, 1);
    hold_in(4);
    rig.order(0, MessageKind::kStop, Empty{});
    clock->open();
    rig.told<Farewell>(MessageKind::kFarewell);
}

TEST(StartPermit, IsOneMiniBatchPerSetOfParameters) {
    StartPermit leave;
    EXPECT_FALSE(leave.held());
    leave.parameters(3);
    leave.parameters(4);
    EXPECT_TRUE(leave.held());
    leave.begin(1);
    EXPECT_FALSE(leave.held());
    EXPECT_EQ(leave.version(), 4);
}

TEST(StartPermit, AFenceThatTakesLeasesBackAsksForNoVersion) {
    StartPermit leave;
    leave.parameters(3);
    leave.revoke({.leases = {1, 2}, .up_to = 0, .version = 0});
    EXPECT_TRUE(leave.held()) << "nothing was begun";
    leave.begin(3);
    leave.revoke({.leases = {1, 2}, .up_to = 0, .version = 0});
    EXPECT_FALSE(leave.held());
    leave.revoke({.leases = {3}, .up_to = 0, .version = 0});
    EXPECT_TRUE(leave.held());
    leave.begin(4);
    leave.revoke({.leases = {}, .up_to = 4, .version = 0});
    EXPECT_TRUE(leave.held());
    leave.join();
    EXPECT_FALSE(leave.held());
}

}  // namespace
}  // namespace cohort
