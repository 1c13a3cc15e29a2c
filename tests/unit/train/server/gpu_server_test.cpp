// A server whose shard lies in a device's memory. The memory is the CPU's here: the bits must be
// those of a shard in host memory, whatever orders it gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "support/train/server_pushes.hpp"

namespace cohort {
namespace {

using test::fire_order;
using test::make_push;
using test::stage;
using test::TestPush;

struct Both {
    Both(const Graph& graph, const OptimizerOptions& optimizer, int servers = 1, int part = 0)
        : range(cut_shards(graph, servers).at(static_cast<std::size_t>(part))),
          host(graph, range, optimizer, 2),
          there(graph, range, optimizer, 2, make_cpu_device(1)) {
        host.initialise(7, 0);
        there.initialise(7, 0);
    }
    /// Carries an order out on both; what they leave must be the same.
    void fire(const std::vector<TestPush>& pushes, const FireOrder& order) {
        for (const TestPush& push : pushes) {
            ASSERT_TRUE(stage(host, push));
            ASSERT_TRUE(stage(there, push));
        }
        double on_host = 0;
        const FireOutput expected = test::fire(host, order, &on_host);
        const FireOutput got = there.prepare(order);
        std::int64_t final = 0;
        const double on_device = there.fire(order, got, [&](std::int64_t floats) {
            EXPECT_GT(floats, final);
            final = floats;
        });
        EXPECT_EQ(final, range.floats());
        ASSERT_EQ(got.copies.size(), expected.copies.size());
        const auto floats = static_cast<std::size_t>(range.floats());
        for (std::size_t i = 0; i < got.copies.size(); ++i) {
            EXPECT_THAT(std::span(got.copies[i].values.get(), floats),
                        testing::ElementsAreArray(expected.copies[i].values.get(), floats));
        }
        EXPECT_DOUBLE_EQ(on_device, on_host);
        compare();
    }
    void compare() {
        const ShardSnapshot expected = host.capture();
        const ShardSnapshot got = there.capture();
        EXPECT_EQ(got.parameters, expected.parameters);
        EXPECT_EQ(got.state, expected.state);
        EXPECT_EQ(got.version, expected.version);
        EXPECT_EQ(got.optimizer_slots, expected.optimizer_slots);
        EXPECT_EQ(got.optimizer_scalars, expected.optimizer_scalars);
    }

    ShardRange range;
    ServerShard host;
    ServerShard there;
};

std::vector<TestPush> two_pushes(const Graph& graph, std::uint64_t round) {
    return {make_push(graph, {0, 0, round}, 0.75, 2 * round),
            make_push(graph, {1, 0, round}, 0.25, 2 * round + 1)};
}

TEST(ShardDevice, UpdatesAsTheHostDoes) {
    const Graph graph = test::server_graph();
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        Both both(graph, {.kind = kind, .weight_decay = 1e-3});
        std::int64_t version = 0;
        for (const double f : {1.0, 0.375, 1.0}) {
            const auto pushes = two_pushes(graph, static_cast<std::uint64_t>(++version));
            FireOrder order =
                fire_order(version, pushes, {{.worker = 0}, {.worker = 1, .lag = 1.5}}, f);
            order.update.ask_norm = true;
            both.fire(pushes, order);
        }
        both.fire({}, {.update = {.version = version, .learning_rate = 0.05},
                       .releases = {{.worker = 0, .lag = 0.5}}});
    }
}

TEST(ShardDevice, TakesDeltasCompensationAndWholePushes) {
    const Graph graph = test::server_graph();
    Both both(graph, {}, 3, 1);
    const auto first = two_pushes(graph, 1);
    FireOrder order = fire_order(1, first, {{.worker = 0}, {.worker = 1}});
    order.update.delay_compensation = 0.5;
    both.fire(first, order);
    const auto second = two_pushes(graph, 2);
    order = fire_order(2, second, {{.worker = 0}});
    order.update.delay_compensation = 0.5;
    for (UpdateTerm& push : order.update.terms) {
        push.version = 1;
    }
    both.fire(second, order);
    const auto third = two_pushes(graph, 3);
    order = fire_order(3, third, {{.worker = 0}});
    order.update.work = Work::kDelta;
    both.fire(third, order);
    const std::vector<TestPush> whole{make_push(graph, {0, 0, 4}, 1, 9)};
    both.fire(whole, fire_order(4, whole));
}

TEST(ShardDevice, CapturesAndGoesOn) {
    const Graph graph = test::server_graph();
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        Both before(graph, {.kind = kind});
        const auto first = two_pushes(graph, 1);
        before.fire(first, fire_order(1, first));
        Both after(graph, {.kind = kind});
        after.host.restore(before.there.capture());
        after.there.restore(before.host.capture());
        after.compare();
        const auto second = two_pushes(graph, 2);
        after.fire(second, fire_order(2, second, {{.worker = 0, .lag = 2}}));
    }
}

TEST(ShardDevice, SaysWhereTheShardLies) {
    const Graph graph = test::server_graph();
    const Both both(graph, {});
    EXPECT_EQ(both.host.store().device(), "cpu");
    EXPECT_THAT(both.there.store().device(), testing::StartsWith("cpu: 1 thread"));
    const RankMap map{.ranks = {{.role = Role::kServer}}, .servers = 1};
    EXPECT_EQ(make_shard_device("cpu", map, 0), nullptr);
    if (cuda_status().device_count == 0) {
        EXPECT_THROW((void)make_shard_device("cuda", map, 0), DeviceError);
    }
}

/// Larger than a piece.
TEST(ShardDevice, GoesPieceByPiece) {
    GraphBuilder net("wide", Shape{1100});
    const Graph graph = net.finish(net.linear(net.input(), {.features = 1000}));
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        Both both(graph, {.kind = kind});
        ASSERT_GT(both.range.parameters(), ShardDevice::kPiece);
        const auto pushes = two_pushes(graph, 1);
        both.fire(pushes, fire_order(1, pushes, {{.worker = 0}, {.worker = 1, .lag = 1.5}}));
    }
}

}  // namespace
}  // namespace cohort
