// Orders whose pushes are still on their way: the line that a server keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "support/train/server_rig.hpp"
#include "train/protocol/protocol_node.hpp"

namespace cohort {
namespace {

using test::fire_order;
using test::make_push;
using test::ShardGroup;
using test::TestPush;

class Line : public test::ServerRig {
protected:
    void begin(int servers, double stall_limit_s = 60) {
        start(servers, stall_limit_s);
        order(MessageKind::kBegin, BeginOrder{});
        order(MessageKind::kFire, fire_order(0, {}, {{.worker = 0}}));
        (void)receive_parameters(0, 0);
    }
    [[nodiscard]] bool quiet(int worker) {
        return !messenger_of(worker).mailbox(Port::kWorker).receive(Clock::Seconds(0.05));
    }
    /// A push by the rank of `worker`, whatever its id says.
    std::shared_ptr<test::Sending> announce_from(int worker, const TestPush& push) {
        TestPush mine = push;
        mine.id.worker = worker;
        auto sending = std::make_shared<test::Sending>();
        for (const ShardRange& range : ranges_) {
            sending->parts.push_back(push.part(range));
        }
        for (const ShardRange& range : ranges_) {
            const auto& part = sending->parts[static_cast<std::size_t>(range.part)];
            sending->transfers.push_back(messenger_of(worker).start_transfer(
                {range.part, Port::kServer}, Port::kWorker, test::kPushKind,
                encode(PushHeader{push.id}), std::as_bytes(std::span(part)), ChunkOrder::kBackward,
                sending));
        }
        return sending;
    }
};

class LineOfAny : public Line, public testing::WithParamInterface<int> {};

TEST_P(LineOfAny, UpdatesWaitForTheirPushesInTheOrderInWhichTheyCame) {
    begin(GetParam());
    ShardGroup reference(graph_, 1, {});
    std::vector<TestPush> pushes;
    std::vector<std::shared_ptr<test::Sending>> sending;
    for (std::int64_t version = 1; version <= 3; ++version) {
        pushes.push_back(
            make_push(graph_, node_sum(0, version), 0.5, static_cast<std::uint64_t>(version)));
        sending.push_back(announce_from(0, pushes.back()));
        const FireOrder update = fire_order(version, {pushes.back()}, {{.worker = 0}});
        order(MessageKind::kFire, update);
        reference.update({pushes.back()}, update);
    }
    send_all(sending[2]);
    send_all(sending[1]);
    EXPECT_TRUE(quiet(0));
    send_all(sending[0]);
    std::vector<float> last;
    for (std::int64_t version = 1; version <= 3; ++version) {
        last = receive_parameters(0, version);
    }
    EXPECT_EQ(last, with_state(reference));
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(, LineOfAny, testing::Values(1, 2, 3));

TEST_F(Line, AWaitHasANameAndNamesWhoIsMissing) {
    constexpr double kLimit = 1e-3;
    begin(1, kLimit);
    const TestPush late = make_push(graph_, {1, 0, 1}, 0.5, 1);
    const TestPush sum = make_push(graph_, node_sum(0, 1), 0.5, 2);
    order(MessageKind::kFire, fire_order(1, {late, sum}, {{.worker = 0}}));
    std::vector<Stall> stalls;
    while (stalls.empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stalls = network_->operations(0).check();
    }
    EXPECT_EQ(stalls[0].name, "gradients of an update");
    EXPECT_EQ(stalls[0].sequence, 1U);
    EXPECT_THAT(stalls[0].missing, testing::ElementsAre(2, 1)) << "worker 1, and node 0's first";
    send_all(announce_from(1, late));
    send_all(announce_from(0, sum));
    (void)receive(coordinator(), Port::kCoordinator, MessageKind::kPushReceived);
    (void)receive_parameters(0, 1);
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

TEST_F(Line, ASumThatIsMadeOnceMoreCountsOnce) {
    begin(2);
    ShardGroup reference(graph_, 1, {});
    const TestPush first = make_push(graph_, node_sum(1, 1, 0), 1, 1);
    TestPush second = first;
    second.id = node_sum(1, 1, 1);
    const auto broken = announce_from(0, first);
    broken->transfers[0]->release(broken->parts[0].size() * sizeof(float));
    broken->transfers[1]->release(5000);  // server 1 never gets the rest while it needs it
    const FireOrder update = fire_order(1, {first}, {{.worker = 0}});
    order(MessageKind::kFire, update);
    EXPECT_TRUE(waiting_.at(0).at(1).empty());
    send_all(announce_from(1, second));
    reference.update({first}, update);
    EXPECT_EQ(receive_parameters(0, 1), with_state(reference));

    const TestPush next = make_push(graph_, node_sum(1, 2), 1, 2);
    const FireOrder another = fire_order(2, {next}, {{.worker = 0}});
    order(MessageKind::kFire, another);
    send_all(announce_from(1, next));
    reference.update({next}, another);
    EXPECT_EQ(receive_parameters(0, 2), with_state(reference));
    send_all(broken);
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
    loops_.clear();
}

/// Others of its node live on: it is not they who owe the rest.
TEST_F(Line, StopDoesNotWaitForTheSumThatALostHeadHadBegun) {
    begin(1);
    const TestPush sum = make_push(graph_, node_sum(0, 1, 0), 1, 1);
    const auto broken = announce_from(0, sum);
    broken->transfers[0]->release(5000);
    push(make_push(graph_, {1, 0, 1}, 1, 2));  // the sum's announcement was here before it
    (void)receive(coordinator(), Port::kCoordinator, MessageKind::kPushReceived);
    network_->membership().exclude(network_->map().rank_of_worker(0));
    order(MessageKind::kDiscard, DiscardOrder{{sum.id}});
    order(MessageKind::kStop, Empty{});
    (void)receive(coordinator(), Port::kCoordinator, MessageKind::kFarewell);
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

TEST_F(Line, AnUpdateGoesOnWithoutWhatWillNotCome) {
    begin(1);
    ShardGroup reference(graph_, 1, {});
    const TestPush here = make_push(graph_, {1, 0, 1}, 0.5, 1);
    const TestPush gone = make_push(graph_, node_sum(1, 1), 0.5, 2);
    const TestPush alone = make_push(graph_, node_sum(1, 2), 1, 3);
    push(here);
    receive_staged({here.id});
    order(MessageKind::kFire, fire_order(1, {here, gone}, {{.worker = 0}}));
    order(MessageKind::kFire, fire_order(2, {alone}, {{.worker = 0}}));
    EXPECT_TRUE(quiet(0));
    order(MessageKind::kDiscard, DiscardOrder{{gone.id, alone.id}});
    reference.update({here}, fire_order(1, {here}));
    const std::vector<float> wanted = with_state(reference);
    EXPECT_EQ(receive_parameters(0, 1), wanted);
    EXPECT_EQ(receive_parameters(0, 2), wanted) << "an update of nothing is a version all the same";
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

TEST_F(Line, StopWaitsForUpdatesThatWereOrdered) {
    begin(1);
    const TestPush sum = make_push(graph_, node_sum(0, 1), 1, 2);
    FireOrder last = fire_order(1, {sum});
    last.snapshot.gather = 3;
    order(MessageKind::kFire, last);
    order(MessageKind::kStop, Empty{});
    EXPECT_FALSE(coordinator().mailbox(Port::kCoordinator).receive(Clock::Seconds(0.05)));
    send_all(announce_from(0, sum));
    (void)receive(coordinator(), Port::kCoordinator, MessageKind::kGathered);
    (void)receive(coordinator(), Port::kCoordinator, MessageKind::kFarewell);
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

TEST_F(Line, PushesAreReportedWithWhatTheReferenceSays) {
    begin(1);
    const auto staged = [this](const TestPush& one) {
        push(one);
        return decode<PushReceived>(
            receive(coordinator(), Port::kCoordinator, MessageKind::kPushReceived).body);
    };
    const TestPush reference = make_push(graph_, {0, 0, 1}, 1, 1);
    EXPECT_EQ(staged(reference).reference_squares, 0);
    order(MessageKind::kReference, ReferenceOrder{reference.id});
    TestPush same = reference;
    same.id.sequence = 2;
    const PushReceived compared = staged(same);
    EXPECT_GT(compared.reference_squares, 0);
    EXPECT_EQ(compared.reference_dot, compared.reference_squares);

    FireOrder asking = fire_order(1, {same});
    asking.update.ask_norm = true;
    order(MessageKind::kFire, asking);
    const auto summed = decode<GradientStatsReply>(
        receive(coordinator(), Port::kCoordinator, MessageKind::kGradientStats).body);
    EXPECT_EQ(summed.version, 1);
    EXPECT_NEAR(summed.squares, compared.reference_squares, 1e-9 * summed.squares);
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

}  // namespace
}  // namespace cohort
