// The memory of a parameter server: sums, updates, snapshots, pushes that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/model/replica.hpp"
#include "layers/optim/look_ahead.hpp"
#include "support/train/server_pushes.hpp"
#include "train/server/busy_time.hpp"

namespace cohort {
namespace {

using test::fire;
using test::fire_order;
using test::make_push;
using test::ShardGroup;
using test::stage;
using test::TestPush;

/// Pushes of three workers with uneven batches.
std::vector<TestPush> three_pushes(const Graph& graph, std::uint64_t round) {
    std::vector<TestPush> pushes;
    const double coefficients[] = {0.5, 0.3, 0.2};
    for (std::int32_t worker = 0; worker < 3; ++worker) {
        pushes.push_back(make_push(graph, {worker, 0, round + 1}, coefficients[worker],
                                   3 * round + static_cast<std::uint64_t>(worker)));
    }
    return pushes;
}

TEST(Shards, CoverTheParametersOnceAtCacheLines) {
    const Graph graph = test::server_graph();
    for (const int parts : {1, 2, 3, 7, 64}) {
        const std::vector<ShardRange> shards = cut_shards(graph, parts);
        std::int64_t at = 0;
        for (const ShardRange& shard : shards) {
            EXPECT_EQ(shard.begin, at);
            EXPECT_EQ(shard.begin % 16, 0);
            EXPECT_LE(std::abs(shard.parameters() - graph.parameters().total() / parts), 16);
            EXPECT_EQ(shard.state, shard.part == parts - 1 ? graph.state().total() : 0);
            at = shard.end;
        }
        EXPECT_EQ(at, graph.parameters().total());
    }
    EXPECT_THROW((void)cut_shards(graph, 0), UsageError);
    EXPECT_THROW((void)cut_shards(graph, 1'000'000), UsageError);
}

TEST(ServerShard, StartsWithTheParametersOfAReplica) {
    const Graph graph = test::server_graph();
    const auto device = make_cpu_device(1);
    Replica replica(graph, *device);
    replica.initialise(7);
    const ShardGroup group(graph, 3, {});
    EXPECT_THAT(group.parameters(), testing::ElementsAreArray(replica.parameters()));
    EXPECT_THAT(group.state(), testing::ElementsAreArray(replica.state()));
}

TEST(ServerShard, UpdatesFollowADoublePrecisionReference) {
    const Graph graph = test::server_graph();
    const double m = 0.9;
    ShardGroup group(graph, 2, {.momentum = m});
    const std::vector<float> start = group.parameters();
    std::vector<double> theta(start.begin(), start.end());
    std::vector<double> u(theta.size());
    std::vector<bool> tensor(theta.size());
    for (const FlatRange& range : graph.parameters().ranges()) {
        std::fill_n(tensor.begin() + range.offset, range.size, true);
    }
    std::int64_t version = 0;
    for (const double f : {1.0, 0.375, 1.0, 0.25}) {
        const auto pushes = three_pushes(graph, static_cast<std::uint64_t>(version));
        group.update(pushes, fire_order(++version, pushes, {}, f, 0.05));
        const double keep = std::pow(m, f);
        for (std::size_t i = 0; i < theta.size(); ++i) {
            double g = 0;
            for (const TestPush& push : pushes) {
                g += push.coefficient * static_cast<double>(push.gradient[i]);
            }
            const double next = keep * u[i] + (1 - keep) * g;
            theta[i] -= 0.05 / (1 - m) * (f * g - m * (next - u[i]) / (1 - m));
            u[i] = next;
        }
    }
    const std::vector<float> got = group.parameters();
    for (std::size_t i = 0; i < theta.size(); ++i) {
        ASSERT_NEAR(got[i], tensor[i] ? theta[i] : 0, 5e-6) << i;
    }
}

TEST(ServerShard, BatchStatisticsAreAWeightedMeanThatIsFolded) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 2, {});
    const std::vector<float> before = group.state();
    std::vector<TestPush> pushes = three_pushes(graph, 0);
    for (TestPush& push : pushes) {
        push.coefficient /= 2;  // a plan's weights: they must not shrink statistics
    }
    group.update(pushes, fire_order(1, pushes, {}, 0.5));
    ASSERT_FALSE(before.empty());
    const double step = 1 - std::pow(0.9, 0.5);
    for (std::size_t i = 0; i < before.size(); ++i) {
        double mean = 0;
        for (const TestPush& push : pushes) {
            mean += 2 * push.coefficient * static_cast<double>(push.batch[i]);
        }
        EXPECT_NEAR(group.state()[i], before[i] + step * (mean - before[i]), 1e-6);
    }
}

class AnyCut : public testing::TestWithParam<OptimizerKind> {};

TEST_P(AnyCut, ShardsAndThreadsGiveTheSameBits) {
    const Graph graph = test::server_graph();
    const OptimizerOptions options{.kind = GetParam(), .weight_decay = 0.01};
    const auto run = [&](int servers, int threads) {
        ShardGroup group(graph, servers, options, threads);
        std::int64_t version = 0;
        for (const double f : {1.0, 0.375, 0.625, 1.0}) {
            const auto pushes = three_pushes(graph, static_cast<std::uint64_t>(version));
            group.update(pushes, fire_order(++version, pushes, {}, f));
        }
        return std::pair(group.parameters(), group.state());
    };
    const auto one = run(1, 1);
    for (const auto& [servers, threads] : {std::pair(2, 1), {3, 1}, {5, 2}, {1, 3}}) {
        EXPECT_EQ(run(servers, threads), one) << servers << " servers, " << threads << " threads";
    }
}

INSTANTIATE_TEST_SUITE_P(, AnyCut, testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdamW),
                         [](const auto& one) { return std::string(word_of(one.param)); });

TEST(ServerShard, OnePushOfFullWeightIsUsedAsItIs) {
    const Graph graph = test::server_graph();
    const std::int64_t total = graph.parameters().total();
    ShardGroup group(graph, 1, {.momentum = 0.9});
    test::OptimizerRun plain({.momentum = 0.9}, graph.parameters(), 0, total, group.parameters());
    const std::vector<TestPush> pushes = {make_push(graph, {2, 0, 1}, 1, 5)};
    group.update(pushes, fire_order(1, pushes, {}, 0.25));
    plain.update(pushes[0].gradient, 0.25, 0.05);
    EXPECT_EQ(group.parameters(), plain.theta);
}

TEST(ServerShard, ARefusedPushNeverTouchesTheParameters) {
    const Graph graph = test::server_graph();
    ShardGroup clean(graph, 1, {});
    ShardGroup other(graph, 1, {});
    TestPush broken = make_push(graph, {3, 0, 1}, 1, 99);
    broken.gradient.assign(broken.gradient.size(), std::numeric_limits<float>::quiet_NaN());
    broken.batch.assign(broken.batch.size(), std::numeric_limits<float>::quiet_NaN());
    const auto pushes = three_pushes(graph, 0);
    clean.update(pushes, fire_order(1, pushes));
    EXPECT_TRUE(stage(other.shard(0), broken));
    other.shard(0).staging().discard(broken.id);
    other.update(pushes, fire_order(1, pushes));
    EXPECT_EQ(other.parameters(), clean.parameters());
    EXPECT_EQ(other.state(), clean.state());
}

TEST(ServerShard, SnapshotsDoNotChangeWhileLaterUpdatesRun) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 1, {});
    ServerShard& shard = group.shard(0);
    const auto floats = static_cast<std::size_t>(shard.range().floats());
    std::vector<std::pair<std::shared_ptr<const float>, std::vector<float>>> held;
    for (std::int64_t version = 1; version <= 4; ++version) {
        const auto pushes = three_pushes(graph, static_cast<std::uint64_t>(version));
        for (const TestPush& push : pushes) {
            ASSERT_TRUE(stage(shard, push));
        }
        const auto copy = fire(shard, fire_order(version, pushes, {{.worker = 0}})).find(0);
        std::vector<float> now(copy.get(), copy.get() + floats);
        EXPECT_TRUE(std::equal(shard.store().parameters().begin(), shard.store().parameters().end(),
                               now.begin()));
        EXPECT_TRUE(std::equal(shard.store().state().begin(), shard.store().state().end(),
                               now.end() - shard.range().state));
        held.emplace_back(copy, std::move(now));
    }
    for (const auto& [copy, values] : held) {
        EXPECT_TRUE(std::equal(values.begin(), values.end(), copy.get()));
    }
    EXPECT_EQ(shard.snapshot_bytes_most(), 4 * floats * sizeof(float));
}

TEST(ServerShard, WhatIsReportedFinalIsFinal) {
    const Graph graph = test::server_graph();
    for (const int threads : {1, 3}) {
        ShardGroup group(graph, 1, {}, threads);
        ServerShard& shard = group.shard(0);
        const auto pushes = three_pushes(graph, 0);
        for (const TestPush& push : pushes) {
            ASSERT_TRUE(stage(shard, push));
        }
        const FireOrder order = fire_order(1, pushes, {{.worker = 0}, {.worker = 1, .lag = 0.5}});
        const FireOutput output = shard.prepare(order);
        std::vector<std::vector<float>> seen(output.copies.size());
        std::int64_t reports = 0;
        shard.fire(order, output, [&](std::int64_t done) {
            ++reports;
            for (std::size_t c = 0; c < seen.size(); ++c) {
                ASSERT_GT(static_cast<std::size_t>(done), seen[c].size());
                const float* values = output.copies[c].values.get();
                seen[c].insert(seen[c].end(), values + seen[c].size(), values + done);
            }
        });
        EXPECT_GE(reports, threads == 1 ? 2 : 1);  // with several, the first step may end last
        for (std::size_t c = 0; c < seen.size(); ++c) {
            ASSERT_EQ(static_cast<std::int64_t>(seen[c].size()), shard.range().floats());
            EXPECT_TRUE(std::equal(seen[c].begin(), seen[c].end(), output.copies[c].values.get()));
        }
    }
}

TEST(ServerShard, LooksAheadByTheLagOfEachRelease) {
    const Graph graph = test::server_graph();
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        ShardGroup group(graph, 1, {.kind = kind});
        ServerShard& shard = group.shard(0);
        const auto pushes = three_pushes(graph, 0);
        const FireOrder order = fire_order(1, pushes,
                                           {{.worker = 0},
                                            {.worker = 1, .lag = 0.75},
                                            {.worker = 2, .lag = 2},
                                            {.worker = 3, .lag = 0.75}},
                                           1, 0.05);
        for (const TestPush& push : pushes) {
            ASSERT_TRUE(stage(shard, push));
        }
        const FireOutput output = fire(shard, order);
        ASSERT_EQ(output.copies.size(), 3U);
        const ShardSnapshot all = shard.capture();
        std::vector<float> wanted(all.parameters.size());
        for (const double lag : {0.0, 0.75, 2.0}) {
            look_ahead(all.parameters, shard.store().look_ahead(0, shard.range().parameters()),
                       0.05, lag, wanted);
            EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), output.find(lag).get())) << lag;
            EXPECT_EQ(wanted == all.parameters, lag == 0);
        }
        // The update itself goes on from the parameters, not from what was looked ahead at.
        EXPECT_EQ(group.parameters(), all.parameters);
    }
}

TEST(ServerShard, AnOrderWithoutPushesSharesTheSnapshotThatIsThere) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 1, {});
    ServerShard& shard = group.shard(0);
    const FireOrder releases{.releases = {{.worker = 0}, {.worker = 1}}};
    const FireOutput first = fire(shard, releases);
    const FireOutput second = fire(shard, releases);
    EXPECT_EQ(first.find(0), second.find(0));
    EXPECT_EQ(shard.version(), 0);
    const auto pushes = three_pushes(graph, 0);
    group.update(pushes, fire_order(1, pushes));
    const FireOutput later = fire(shard, {.update = {.version = 1}, .releases = {{.worker = 0}}});
    EXPECT_NE(later.find(0), first.find(0));
    EXPECT_TRUE(std::equal(shard.store().parameters().begin(), shard.store().parameters().end(),
                           later.find(0).get()));
}

TEST(ServerShard, GoesOnFromACaptureBitForBit) {
    const Graph graph = test::server_graph();
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        ShardGroup first(graph, 1, {.kind = kind});
        const auto step = [&](ShardGroup& group, std::int64_t version) {
            const auto pushes = three_pushes(graph, static_cast<std::uint64_t>(version));
            group.update(pushes, fire_order(version, pushes, {}, 0.375));
        };
        step(first, 1);
        step(first, 2);
        const ShardSnapshot snapshot = first.shard(0).capture();
        ShardGroup second(graph, 1, {.kind = kind});
        second.shard(0).restore(snapshot);
        step(first, 3);
        step(second, 3);
        EXPECT_EQ(second.parameters(), first.parameters());
        EXPECT_EQ(second.state(), first.state());
    }
    ShardGroup half(graph, 2, {});
    EXPECT_THROW(half.shard(0).restore(ShardGroup(graph, 1, {}).shard(0).capture()), FileError);
}

TEST(ServerShard, RefusesOrdersOutOfOrder) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 1, {});
    const auto pushes = three_pushes(graph, 0);
    EXPECT_THROW((void)group.shard(0).prepare(fire_order(2, pushes)), PeerError);
    EXPECT_THROW((void)group.shard(0).prepare({.update = {.version = 1}}), PeerError);
    const FireOutput output = group.shard(0).prepare(fire_order(1, pushes));
    EXPECT_THROW(group.shard(0).fire(fire_order(1, pushes), output, [](std::int64_t) {}),
                 PeerError);
}

class Staging : public testing::Test {
protected:
    static constexpr std::int64_t kFloats = 100;

    std::span<std::byte> announce(PushId push, std::uint64_t bytes = kFloats * sizeof(float)) {
        return staging_.accept({.body = encode(PushHeader{.push = push})}, bytes);
    }

    std::unique_ptr<Device> device_ = make_cpu_device(1);
    PushStaging staging_{*device_, kFloats};
};

TEST_F(Staging, MemoryIsUsedAgain) {
    for (std::uint64_t round = 1; round <= 5; ++round) {
        for (std::int32_t worker = 0; worker < 3; ++worker) {
            EXPECT_EQ(announce({worker, 0, round}).size(), kFloats * sizeof(float));
            EXPECT_TRUE(staging_.arrived({worker, 0, round}));
        }
        EXPECT_NE(staging_.take({0, 0, round}), nullptr);
        EXPECT_NE(staging_.take({1, 0, round}), nullptr);
        staging_.discard({2, 0, round});
    }
    EXPECT_EQ(staging_.bytes_most(), 3 * kFloats * sizeof(float));
}

TEST_F(Staging, ADiscardMayComeBeforeTheBytes) {
    const PushId coming{0, 0, 1};
    EXPECT_FALSE(announce(coming).empty());
    staging_.discard(coming);
    EXPECT_EQ(staging_.coming(), std::vector<int>{0});  // the transfer still writes there
    EXPECT_FALSE(staging_.arrived(coming));
    EXPECT_EQ(staging_.coming(), std::vector<int>());
    EXPECT_FALSE(announce({1, 0, 1}).empty());
    EXPECT_EQ(staging_.bytes_most(), kFloats * sizeof(float)) << "its memory is used again";
    EXPECT_TRUE(staging_.arrived({1, 0, 1}));
    staging_.discard({1, 0, 1});

    const PushId early{0, 0, 2};
    staging_.discard(early);
    EXPECT_TRUE(announce(early).empty());
    EXPECT_FALSE(staging_.arrived(early));
    EXPECT_FALSE(announce({0, 0, 3}).empty());
}

TEST_F(Staging, WhatCannotBeIsSaid) {
    EXPECT_TRUE(announce({0, 0, 1}, 8).empty());
    EXPECT_THROW((void)staging_.arrived({0, 0, 1}), PeerError);
    EXPECT_FALSE(announce({0, 0, 2}).empty());
    EXPECT_TRUE(announce({0, 0, 2}).empty());
    EXPECT_THROW((void)staging_.arrived({0, 0, 2}), PeerError);
    EXPECT_THROW((void)staging_.take({5, 0, 1}), PeerError);
}

/// Transfers of a lost rank never end: they do not count as work for ever.
TEST(BusyTime, ForgetsWhatMayNeverEnd) {
    BusyTime busy;
    std::shared_ptr<const void> lost = busy.until_released(nullptr);
    busy.note_epoch(1);
    const double then = busy.seconds();
    { const std::shared_ptr<const void> next = busy.until_released(nullptr); }
    const double now = busy.seconds();
    EXPECT_GE(now, then);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(busy.seconds(), now) << "nothing goes on";
    lost.reset();
    EXPECT_EQ(busy.seconds(), now);
}

}  // namespace
}  // namespace cohort
