// How a push leaves: what is released when, and what of the parameters that come back is used.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "support/train/worker_rig.hpp"
#include "train/worker/servers/push_buffers.hpp"

namespace cohort {
namespace {

/// Keeps every byte as it was when it was released.
class RecordingTransfer final : public OutgoingTransfer {
public:
    explicit RecordingTransfer(std::span<const std::byte> from) : data(from), seen(from.size()) {}
    void release(std::uint64_t bytes) override {
        if (bytes < released || bytes > data.size()) {
            throw std::logic_error("releases grow up to the size");
        }
        const std::size_t begin = data.size() - bytes;
        std::memcpy(seen.data() + begin, data.data() + begin, bytes - released);
        released = bytes;
        ++releases;
    }
    [[nodiscard]] bool done() const override { return finished; }

    std::span<const std::byte> data;
    std::vector<std::byte> seen;
    std::uint64_t released = 0;
    int releases = 0;
    bool finished = false;
};

class RecordingMessenger final : public Messenger {
public:
    [[nodiscard]] int rank() const noexcept override { return 3; }
    void send(Address, Port, std::uint16_t, std::vector<std::byte>) override {}
    [[nodiscard]] std::shared_ptr<OutgoingTransfer> start_transfer(
        Address to, Port, std::uint16_t, std::vector<std::byte>, std::span<const std::byte> data,
        ChunkOrder order, std::shared_ptr<const void> owner) override {
        EXPECT_EQ(to.rank, static_cast<int>(transfers.size()));
        EXPECT_EQ(order, ChunkOrder::kBackward);
        EXPECT_TRUE(owner);
        transfers.push_back(std::make_shared<RecordingTransfer>(data));
        return transfers.back();
    }
    [[nodiscard]] Mailbox& mailbox(Port) override { return box; }
    void set_sink(Port, TransferSink*) override {}
    [[nodiscard]] TrafficCounters counters() const override { return {}; }

    std::vector<std::shared_ptr<RecordingTransfer>> transfers;
    Mailbox box;
};

struct PushTest : testing::TestWithParam<int> {
    PushTest()
        : rig("resnet20", 1, GetParam()),
          layout(cut_shards(rig.job.graph, GetParam())),
          lone(rig.job.graph),
          injector({}, 0, 1, std::make_shared<VirtualClock>()) {}
    test::WorkerRig rig;
    RecordingMessenger messenger;
    ShardedLayout layout;
    test::LoneReplica lone;
    Injector injector;
};
INSTANTIATE_TEST_SUITE_P(Shards, PushTest, testing::Values(1, 2, 5));

TEST_P(PushTest, BytesAreFinalWhenTheyAreReleasedAndLeaveWhileBackwardRuns) {
    const CommContext comm{messenger, rig.network.operations(0), rig.network.map()};
    lone.replica.initialise(5);
    auto buffer = std::make_shared<Buffer>(
        lone.device->allocate_host(static_cast<std::size_t>(layout.floats()) * sizeof(float)));
    const PushRoute route = PushRoute::to_servers(comm, layout);
    const PushForm form = route.whole();
    PushObserver observer({lone.replica, injector}, route, form, buffer,
                          PushWriter(layout.all(*buffer)), {});
    const LoadedBatch batch = rig.batch(0, 8);
    ASSERT_TRUE(lone.replica.train_step(view_of(batch), 1, observer));
    observer.finish();
    ASSERT_EQ(messenger.transfers.size(), layout.shards().size());
    int releases = 0;
    for (const ShardRange& shard : layout.shards()) {
        const RecordingTransfer& sent = *messenger.transfers[static_cast<std::size_t>(shard.part)];
        const auto count = static_cast<std::size_t>(shard.parameters());
        EXPECT_EQ(sent.released, sent.data.size());
        ASSERT_EQ(sent.data.size(), static_cast<std::size_t>(shard.floats()) * sizeof(float));
        EXPECT_EQ(std::memcmp(sent.seen.data(), lone.replica.gradients().data() + shard.begin,
                              count * sizeof(float)),
                  0);
        EXPECT_EQ(
            std::memcmp(sent.seen.data() + count * sizeof(float), lone.replica.batch_state().data(),
                        static_cast<std::size_t>(shard.state) * sizeof(float)),
            0);
        releases += sent.releases;
    }
    EXPECT_GE(releases, 20) << "once per layer or so";
}

/// What an earlier push left is added to the gradient, statistics included.
TEST_P(PushTest, RoundedItLeavesInHalfTheBytesAndKeepsTheRest) {
    const CommContext comm{messenger, rig.network.operations(0), rig.network.map()};
    lone.replica.initialise(5);
    const auto floats = static_cast<std::size_t>(layout.floats());
    auto buffer = std::make_shared<Buffer>(lone.device->allocate_host(floats * 2));
    ErrorFeedback feedback(layout.floats());
    std::ranges::fill(feedback.begin(1, Work::kGradient).after, 0.001F);
    feedback.decide(1, true);
    ErrorFeedback::Push& rest = feedback.begin(2, Work::kGradient);
    const PushRoute route = PushRoute::to_servers(comm, layout, Wire::kBf16);
    const PushForm form = route.whole();
    PushObserver observer({lone.replica, injector}, route, form, buffer,
                          PushWriter::into(Wire::kBf16, layout, *buffer, &rest), {});
    ASSERT_TRUE(lone.replica.train_step(view_of(rig.batch(0, 8)), 1, observer));
    observer.finish();
    std::vector<float> values(lone.replica.gradients().begin(), lone.replica.gradients().end());
    values.insert(values.end(), lone.replica.batch_state().begin(),
                  lone.replica.batch_state().end());
    ASSERT_EQ(values.size(), floats);
    for (const ShardRange& shard : layout.shards()) {
        const RecordingTransfer& sent = *messenger.transfers[static_cast<std::size_t>(shard.part)];
        ASSERT_EQ(sent.data.size(), static_cast<std::size_t>(shard.floats()) * 2);
        EXPECT_EQ(sent.released, sent.data.size());
        std::vector<float> seen(static_cast<std::size_t>(shard.floats()));
        widen_bf16(reinterpret_cast<const std::uint16_t*>(sent.seen.data()), seen);
        for (std::size_t i = 0; i < seen.size(); ++i) {
            const auto at = static_cast<std::size_t>(shard.begin) + i;
            ASSERT_EQ(rest.after[at], values[at] + 0.001F - seen[i]);
            ASSERT_LE(std::abs(rest.after[at]), std::abs(seen[i]) / 256);
        }
    }
}

TEST_P(PushTest, ABufferIsUsedAgainWhenAllOfItHasLeft) {
    SendBuffers buffers(layout, *lone.device);
    std::vector<std::shared_ptr<RecordingTransfer>> sent;
    for (int i = 0; i < 2; ++i) {
        const auto buffer = buffers.free();
        ASSERT_TRUE(buffer);
        std::vector<std::shared_ptr<OutgoingTransfer>> transfers;
        for (int server = 0; server < 2; ++server) {
            sent.push_back(std::make_shared<RecordingTransfer>(std::span<const std::byte>()));
            transfers.push_back(sent.back());
        }
        buffers.in_use(buffer, transfers);
    }
    EXPECT_FALSE(buffers.free());
    sent[0]->finished = true;
    EXPECT_FALSE(buffers.free());
    EXPECT_EQ(SendBuffers::missing(buffers.oldest()), std::vector<int>{1});
    sent[1]->finished = true;
    EXPECT_TRUE(buffers.free());
}

/// An inbox that gets parts as a communication thread would deliver them.
struct InboxTest : testing::Test {
    InboxTest()
        : rig("smallcnn", 1, 2), layout(cut_shards(rig.job.graph, 2)), lone(rig.job.graph) {}

    std::span<std::byte> begin(std::int64_t version, std::int32_t server,
                               std::uint64_t evaluation = 0) {
        const Message announcement{{server, Port::kServer},
                                   static_cast<std::uint16_t>(MessageKind::kParameters),
                                   encode(header(version, server, evaluation))};
        return inbox.accept(announcement, bytes(server));
    }
    [[nodiscard]] std::uint64_t bytes(std::int32_t server) const {
        const ShardRange& shard = layout.shards()[static_cast<std::size_t>(server)];
        return static_cast<std::uint64_t>(shard.floats()) * sizeof(float);
    }
    [[nodiscard]] ParametersHeader header(std::int64_t version, std::int32_t server,
                                          std::uint64_t evaluation = 0) const {
        const auto count = static_cast<std::int32_t>(layout.shards().size());
        const bool known = server >= 0 && server < count;
        const ShardRange shard =
            known ? layout.shards()[static_cast<std::size_t>(server)] : ShardRange();
        return {.version = version,
                .server = server,
                .evaluation = {evaluation, 0, 1},
                .begin = shard.begin,
                .end = shard.end};
    }
    std::int64_t take_version() {
        auto taken = inbox.take();
        const std::int64_t version = taken ? taken->version : -1;
        if (taken) {
            inbox.give_back(std::move(*taken));
        }
        return version;
    }

    test::WorkerRig rig;
    ShardedLayout layout;
    test::LoneReplica lone;
    ParameterInbox inbox{layout, *lone.device};
};

TEST_F(InboxTest, RoundedParametersAreWidenedAndTheStateStaysAsItIs) {
    ParameterInbox rounded(layout, *lone.device, Wire::kBf16);
    const auto value = [](std::int64_t i) { return static_cast<float>(i % 199) - 99; };
    for (const ShardRange& shard : layout.shards()) {
        const Message announcement{{shard.part, Port::kServer},
                                   static_cast<std::uint16_t>(MessageKind::kParameters),
                                   encode(header(4, shard.part))};
        EXPECT_TRUE(rounded.accept(announcement, bytes(shard.part)).empty()) << "f32 is refused";
        const PulledBytes pulled{.wire = Wire::kBf16, .parameters = shard.parameters()};
        const auto to = rounded.accept(announcement, pulled.of(shard.floats()));
        ASSERT_EQ(to.size(), static_cast<std::size_t>(2 * shard.parameters() + 4 * shard.state));
        std::vector<float> parameters;
        for (std::int64_t i = shard.begin; i < shard.end; ++i) {
            parameters.push_back(value(i));
        }
        std::vector<std::uint16_t> shorts(parameters.size());
        narrow_to_bf16(parameters, shorts.data());
        std::memcpy(to.data(), shorts.data(), shorts.size() * 2);
        const std::vector<float> state(static_cast<std::size_t>(shard.state), 1.0F / 3);
        std::memcpy(to.data() + shorts.size() * 2, state.data(), state.size() * sizeof(float));
        rounded.arrived(header(4, shard.part));
    }
    const auto taken = rounded.take();
    ASSERT_TRUE(taken);
    for (std::int64_t i = 0; i < layout.parameters(); ++i) {
        ASSERT_EQ(taken->values.floats()[i], value(i)) << i;
    }
    for (std::int64_t i = layout.parameters(); i < layout.floats(); ++i) {
        ASSERT_EQ(taken->values.floats()[i], 1.0F / 3);
    }
}

TEST_F(InboxTest, PartsOfTwoVersionsInterleaveWithoutSharingMemory) {
    const auto a0 = begin(1, 0);
    const auto b0 = begin(2, 0);
    const auto a1 = begin(1, 1);
    const auto b1 = begin(2, 1);
    ASSERT_FALSE(a0.empty() || b0.empty() || a1.empty() || b1.empty());
    EXPECT_NE(a0.data(), b0.data());
    EXPECT_NE(a1.data(), b1.data());
    EXPECT_TRUE(a0.data() + a0.size() == a1.data()) << "shards lie side by side";
    inbox.arrived(header(1, 0));
    inbox.arrived(header(2, 0));
    EXPECT_FALSE(inbox.has_complete());
    EXPECT_EQ(inbox.missing(), std::vector<int>{1});
    inbox.arrived(header(1, 1));
    EXPECT_EQ(take_version(), 1);
    EXPECT_EQ(take_version(), -1);
    inbox.arrived(header(2, 1));
    EXPECT_EQ(take_version(), 2);
}

TEST_F(InboxTest, TwoSetsOfOneVersionStayTwo) {
    static_cast<void>(begin(1, 0));
    static_cast<void>(begin(1, 0));
    inbox.arrived(header(1, 0));
    inbox.arrived(header(1, 0));
    EXPECT_FALSE(inbox.has_complete());
    static_cast<void>(begin(1, 1));
    inbox.arrived(header(1, 1));
    EXPECT_EQ(take_version(), 1);
    EXPECT_FALSE(inbox.has_complete());
    static_cast<void>(begin(1, 1));
    inbox.arrived(header(1, 1));
    EXPECT_EQ(take_version(), 1);
}

TEST_F(InboxTest, MemoryOfAnOvertakenSetIsKeptUntilItsBytesAreThere) {
    const auto old = begin(1, 0);  // under way all the time
    static_cast<void>(begin(2, 0));
    static_cast<void>(begin(2, 1));
    inbox.arrived(header(2, 0));
    inbox.arrived(header(2, 1));
    EXPECT_EQ(take_version(), 2);
    for (std::int64_t version = 3; version < 6; ++version) {
        EXPECT_NE(begin(version, 0).data(), old.data());
        static_cast<void>(begin(version, 1));
        inbox.arrived(header(version, 0));
        inbox.arrived(header(version, 1));
        EXPECT_EQ(take_version(), version);
    }
    inbox.arrived(header(1, 0));
    EXPECT_FALSE(inbox.has_complete());
}

/// Two pieces of each server's part, passed on by rank 5; again: the servers' parts in their place.
struct PassedOnTest : InboxTest {
    [[nodiscard]] ParametersHeader piece_of(std::int64_t version, std::int32_t server,
                                            std::int32_t piece) const {
        ParametersHeader one = header(version, server);
        const std::int64_t middle = one.begin + (one.end - one.begin) / 2;
        (piece == 0 ? one.end : one.begin) = middle;
        one.way = ParametersWay::kPassedOn;
        one.piece = piece;
        one.pieces = 2;
        return one;
    }
    [[nodiscard]] ParametersHeader again(std::int64_t version, std::int32_t server) const {
        ParametersHeader one = header(version, server);
        one.way = ParametersWay::kAgain;
        return one;
    }
    /// @return its memory; empty: nobody needs it
    std::span<std::byte> announce(const ParametersHeader& one) {
        const bool last = one.server == 1 && one.piece + 1 == one.pieces;
        const std::int64_t floats = one.end - one.begin + (last ? layout.state() : 0);
        return inbox.accept({{one.way == ParametersWay::kPassedOn ? 5 : one.server, Port::kNode},
                             static_cast<std::uint16_t>(MessageKind::kParameters),
                             encode(one)},
                            static_cast<std::uint64_t>(floats) * sizeof(float));
    }
    void come(const ParametersHeader& one) {
        static_cast<void>(announce(one));
        inbox.arrived(one);
    }
    void come_all(std::int64_t version) {
        for (const std::int32_t server : {0, 1}) {
            come(piece_of(version, server, 0));
            come(piece_of(version, server, 1));
        }
    }
};

TEST_F(PassedOnTest, PiecesMakeASet) {
    const auto last = announce(piece_of(1, 1, 1));
    const auto first = announce(piece_of(1, 0, 0));
    EXPECT_EQ(
        last.data() + last.size() - first.data(),
        static_cast<std::ptrdiff_t>(static_cast<std::size_t>(layout.floats()) * sizeof(float)));
    inbox.arrived(piece_of(1, 1, 1));
    EXPECT_EQ(inbox.coming(), std::vector<int>{5}) << "who is lost is not waited for";
    inbox.arrived(piece_of(1, 0, 0));
    come(piece_of(1, 1, 0));
    EXPECT_EQ(inbox.missing(), std::vector<int>{0});
    EXPECT_EQ(take_version(), -1);
    come(piece_of(1, 0, 1));
    EXPECT_EQ(take_version(), 1);
}

TEST_F(PassedOnTest, WhatIsSentAgainPermitsNoSecondMiniBatch) {
    come_all(1);
    EXPECT_EQ(take_version(), 1);
    EXPECT_TRUE(announce(again(1, 0)).empty()) << "it has them";
    inbox.arrived(again(1, 0));
    come(piece_of(2, 0, 0));  // the other pieces are lost
    static_cast<void>(announce(piece_of(2, 0, 1)));
    come(again(2, 0));
    come(again(2, 1));
    EXPECT_EQ(take_version(), 2);
    inbox.arrived(piece_of(2, 0, 1));  // they were only slow
    come(piece_of(2, 1, 0));
    come(piece_of(2, 1, 1));
    EXPECT_EQ(take_version(), -1);
    come(again(3, 0));
    come_all(3);
    EXPECT_EQ(take_version(), 3);
    come(again(3, 1));
    EXPECT_EQ(take_version(), -1);
    come(header(3, 0));  // an order of its own
    come(header(3, 1));
    EXPECT_EQ(take_version(), 3);
}

TEST_F(PassedOnTest, NewerOnesFromTheServersOvertakeThem) {
    come(header(2, 0));
    come_all(1);  // began later, is complete earlier
    come(header(2, 1));
    EXPECT_EQ(take_version(), 2);
    EXPECT_EQ(take_version(), -1) << "the older ones are not used any more";
}

TEST_F(InboxTest, AnEvaluationIsNeverLostSilently) {
    static_cast<void>(begin(1, 0, 9));
    inbox.arrived(header(1, 0, 9));
    static_cast<void>(begin(2, 0));
    static_cast<void>(begin(2, 1));
    inbox.arrived(header(2, 0));
    inbox.arrived(header(2, 1));
    EXPECT_THROW(static_cast<void>(inbox.take()), PeerError);
}

TEST_F(InboxTest, RefusesWhatDoesNotFit) {
    const Message announcement{{0, Port::kServer},
                               static_cast<std::uint16_t>(MessageKind::kParameters),
                               encode(header(1, 0))};
    EXPECT_TRUE(inbox.accept(announcement, bytes(0) + 4).empty());
    EXPECT_THROW(inbox.arrived(header(1, 0)), PeerError);
    EXPECT_THROW(inbox.arrived(header(1, 7)), PeerError);
    EXPECT_THROW(inbox.arrived(header(1, -1)), PeerError);
}

}  // namespace
}  // namespace cohort
