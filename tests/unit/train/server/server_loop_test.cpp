// Parameter servers by messages: the test is coordinator and all workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "support/core/temp_folder.hpp"
#include "support/train/server_rig.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {
namespace {

using test::fire_order;
using test::make_push;
using test::ShardGroup;
using test::TestPush;

using test::kPatience;
using test::Sending;

class Servers : public test::ServerRig {};

/// One update by everybody's pushes that goes to everybody.
FireOrder whole_update(std::int64_t version, const std::vector<TestPush>& pushes,
                       double fraction = 1) {
    std::vector<ReleaseOrder> releases;
    for (std::int32_t worker = 0; worker < 3; ++worker) {
        releases.push_back({.worker = worker});
    }
    return fire_order(version, pushes, releases, fraction);
}

class AnyServers : public Servers, public testing::WithParamInterface<int> {};

TEST_P(AnyServers, UpdatesReachEveryWorkerWithTheBitsOfOneShard) {
    start(GetParam());
    ShardGroup reference(graph_, 1, {});
    order(MessageKind::kBegin, BeginOrder{});
    order(MessageKind::kFire, whole_update(0, {}));
    for (std::int64_t version = 0; version < 4; ++version) {
        for (int worker = 0; worker < kWorkers; ++worker) {
            EXPECT_EQ(receive_parameters(worker, version), with_state(reference));
        }
        std::vector<TestPush> pushes;
        std::set<PushId> ids;
        for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
            const auto sequence = static_cast<std::uint64_t>(version) + 1;
            pushes.push_back(make_push(graph_, {worker, 0, sequence}, 1.0 / kWorkers,
                                       sequence * kWorkers + static_cast<std::uint64_t>(worker)));
            push(pushes.back());
            ids.insert(pushes.back().id);
        }
        receive_staged(ids);
        const FireOrder update = whole_update(version + 1, pushes);
        order(MessageKind::kFire, update);
        reference.update(pushes, update);
    }
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
    for (const auto& loop : loops_) {
        (void)loop;
        Message message;
        do {
            message = coordinator().mailbox(Port::kCoordinator).receive(kPatience).value();
        } while (message.kind != static_cast<std::uint16_t>(MessageKind::kFarewell));
        const auto last = decode<Farewell>(message.body);
        const auto bytes = static_cast<std::uint64_t>(
                               ranges_[static_cast<std::size_t>(message.from.rank)].floats()) *
                           sizeof(float);
        EXPECT_EQ(last.staging_bytes, kWorkers * bytes);
        EXPECT_GE(last.snapshot_bytes, bytes);
        EXPECT_LE(last.snapshot_bytes, 2 * bytes);
        EXPECT_GE(last.bytes_received, 4 * kWorkers * bytes);
    }
}

/// Shards move between updates, with the state of the optimizer: parameters have the bits of one
/// shard that never moved. A push that was given up before and comes later harms nobody.
TEST_P(AnyServers, MovesKeepEveryBit) {
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        const OptimizerOptions optimizer{.kind = kind};
        waiting_.clear();
        layout_ = 0;
        start(GetParam(), 60, optimizer);
        ShardGroup reference(graph_, 1, optimizer);
        order(MessageKind::kBegin, BeginOrder{});
        order(MessageKind::kFire, whole_update(0, {}));
        std::mt19937 random(3);
        for (std::int64_t version = 0; version < 6; ++version) {
            for (int worker = 0; worker < kWorkers; ++worker) {
                EXPECT_EQ(receive_parameters(worker, version), with_state(reference));
            }
            const auto sequence = static_cast<std::uint64_t>(version) + 1;
            const auto given_up = announce(make_push(graph_, {2, 9, sequence}, 1, sequence));
            std::vector<double> shares;
            for (int server = 0; server < servers(); ++server) {
                shares.push_back(1.0 + static_cast<double>(random() % 20));
            }
            move(shares);
            send_all(given_up);
            std::vector<TestPush> pushes;
            std::set<PushId> ids;
            for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
                pushes.push_back(make_push(graph_, {worker, 0, sequence}, 1.0 / kWorkers,
                                           sequence * 10 + static_cast<std::uint64_t>(worker)));
                push(pushes.back());
                ids.insert(pushes.back().id);
            }
            receive_staged(ids);
            const FireOrder update = whole_update(version + 1, pushes);
            order(MessageKind::kFire, update);
            reference.update(pushes, update);
        }
        for (int worker = 0; worker < kWorkers; ++worker) {
            EXPECT_EQ(receive_parameters(worker, 6), with_state(reference));
        }
        stop();
        EXPECT_EQ(errors_, std::vector<std::string>{});
        loops_.clear();
    }
}

/// Discards and the bytes they speak of come in any order, from several workers, some of them not
/// a number, while updates go on: what is applied is what was ordered.
TEST_P(AnyServers, AnyOrderOfMessagesGivesTheOrderedUpdates) {
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE(seed);
        start(GetParam());
        std::mt19937 random(seed);
        ShardGroup reference(graph_, 1, {});
        order(MessageKind::kBegin, BeginOrder{});
        std::vector<std::shared_ptr<Sending>> late;
        const auto coin = [&] { return random() % 2 == 0; };
        for (std::int64_t version = 1; version <= 5; ++version) {
            std::vector<TestPush> pushes;
            std::vector<std::shared_ptr<Sending>> now;
            std::set<PushId> wanted;
            for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
                TestPush one = make_push(
                    graph_, {worker, seed, static_cast<std::uint64_t>(version)}, 0.25, random());
                const bool refused = worker > 0 && coin();
                const bool before = coin();
                if (refused) {
                    std::fill(one.gradient.begin(), one.gradient.end(), std::nanf(""));
                }
                if (refused && before) {
                    order(MessageKind::kDiscard, DiscardOrder{{one.id}});
                }
                const auto sending = announce(one);
                sending->transfers[0]->release(coin() ? random() % 300'000 : 0);
                (refused && coin() ? late : now).push_back(sending);
                if (refused && !before) {
                    order(MessageKind::kDiscard, DiscardOrder{{one.id}});
                }
                if (!refused) {
                    wanted.insert(one.id);
                    pushes.push_back(std::move(one));
                }
            }
            std::shuffle(now.begin(), now.end(), random);
            for (const auto& sending : now) {
                send_all(sending);
            }
            receive_staged(wanted);
            const FireOrder update = whole_update(version, pushes, coin() ? 1 : 0.375);
            order(MessageKind::kFire, update);
            reference.update(pushes, update);
        }
        for (const auto& sending : late) {
            send_all(sending);
        }
        for (int worker = 0; worker < kWorkers; ++worker) {
            std::vector<float> last;
            for (std::int64_t version = 1; version <= 5; ++version) {
                last = receive_parameters(worker, version);
            }
            EXPECT_EQ(last, with_state(reference));
        }
        stop();
        loops_.clear();
    }
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(, AnyServers, testing::Values(1, 2, 3));

TEST_F(Servers, AnIdleServerIsNoStallAndSaysWhetherTheRunHasBegun) {
    constexpr double kLimit = 1e-3;
    start(1, kLimit);
    EXPECT_FALSE(loops_[0]->begun());
    order(MessageKind::kBegin, BeginOrder{});
    order(MessageKind::kFire, whole_update(0, {}));
    (void)receive_parameters(0, 0);
    EXPECT_TRUE(loops_[0]->begun());
    const auto idle = [this] {
        const auto lines = network_->operations(0).last_operations();
        return !lines.empty() && lines.back().find("order") == 0 &&
               lines.back().find("waiting") != std::string::npos;
    };
    while (!idle()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(network_->operations(0).check().empty());
    EXPECT_TRUE(idle());
}

TEST_F(Servers, AServerThatStopsTakesInWhatIsOnItsWay) {
    start(1);
    order(MessageKind::kBegin, BeginOrder{});
    const auto before = announce(make_push(graph_, {1, 0, 1}, 1, 4));
    before->transfers[0]->release(10'000);
    order(MessageKind::kStop, Empty{});
    EXPECT_FALSE(coordinator().mailbox(Port::kCoordinator).receive(Clock::Seconds(0.05)));
    push(make_push(graph_, {2, 0, 1}, 1, 5));  // nobody wants it any more
    EXPECT_FALSE(coordinator().mailbox(Port::kCoordinator).receive(Clock::Seconds(0.05)));
    send_all(before);
    (void)receive(coordinator(), Port::kCoordinator, MessageKind::kFarewell);
    stop();
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

TEST_F(Servers, SnapshotsAreGatheredAndTheStateComesLast) {
    start(2);
    order(MessageKind::kBegin, BeginOrder{.version = 12});
    FireOrder gather{.update = {.version = 12}};
    gather.snapshot.gather = 5;
    order(MessageKind::kFire, gather);
    std::vector<std::vector<float>> parts(2);
    for (int i = 0; i < 2; ++i) {
        const Message message = receive(coordinator(), Port::kCoordinator, MessageKind::kGathered);
        const auto header = decode<GatheredHeader>(message.body);
        EXPECT_EQ(header.gather, 5U);
        EXPECT_EQ(header.version, 12);
        parts.at(static_cast<std::size_t>(header.part)) = gathered_.take(message);
    }
    EXPECT_EQ(joined(parts), with_state(ShardGroup(graph_, 1, {})));
}

TEST_F(Servers, CheckpointsHoldOneVersionAndAnotherNumberOfServersGoesOn) {
    start(2);
    const TempFolder folder;
    const std::string manifest = checkpoint_path(folder.path(), 100);
    ShardGroup reference(graph_, 1, {});
    order(MessageKind::kBegin, BeginOrder{});
    RunSnapshot saved{.version = 1, .parameters = graph_.parameters().total()};
    for (std::int64_t version = 1; version <= 2; ++version) {
        const std::vector<TestPush> pushes = {
            make_push(graph_, {0, 0, static_cast<std::uint64_t>(version)}, 1, 40)};
        push(pushes[0]);
        receive_staged({pushes[0].id});
        FireOrder update = fire_order(version, pushes);
        if (version == 1) {
            update.snapshot.checkpoint = manifest;
            reference.update(pushes, update);
        }
        order(MessageKind::kFire, update);
        for (std::size_t i = 0; version == 1 && i < ranges_.size(); ++i) {
            const auto part = decode<SavedPart>(
                receive(coordinator(), Port::kCoordinator, MessageKind::kSaved).body);
            EXPECT_EQ(part.error, "");
            saved.shards.push_back(part.file);
        }
    }
    stop();
    write_manifest(manifest, saved, hdf5_);
    loops_.clear();

    start(3);
    order(MessageKind::kBegin, BeginOrder{.checkpoint = manifest, .version = 1});
    order(MessageKind::kFire, whole_update(1, {}));
    EXPECT_EQ(receive_parameters(0, 1), with_state(reference));
    const std::vector<TestPush> pushes = {make_push(graph_, {2, 0, 1}, 1, 77)};
    push(pushes[0]);
    receive_staged({pushes[0].id});
    order(MessageKind::kFire, whole_update(2, pushes));
    reference.update(pushes, fire_order(2, pushes));
    EXPECT_EQ(receive_parameters(0, 2), with_state(reference));
    EXPECT_EQ(errors_, std::vector<std::string>{});
}

TEST_F(Servers, AnOrderThatCannotBeEndsTheLoopWithAnError) {
    start(1);
    order(MessageKind::kBegin, BeginOrder{});
    order(MessageKind::kFire, FireOrder{.update = {.version = 3}, .releases = {{.worker = 0}}});
    stop();
    ASSERT_EQ(errors_.size(), 1U);
    EXPECT_NE(errors_[0].find("another version"), std::string::npos);
}

}  // namespace
}  // namespace cohort
