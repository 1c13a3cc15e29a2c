// What a server does to gradients besides summing them: delay compensation, deltas, comparison with
// a reference, the size of a mean gradient. Against double precision and numbers worked by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "layers/optim/look_ahead.hpp"
#include "support/train/server_pushes.hpp"

namespace cohort {
namespace {

using test::fire;
using test::fire_order;
using test::make_push;
using test::ShardGroup;
using test::stage;
using test::TestPush;

std::vector<bool> inside_tensors(const Graph& graph) {
    std::vector<bool> inside(static_cast<std::size_t>(graph.parameters().total()));
    for (const FlatRange& range : graph.parameters().ranges()) {
        std::fill_n(inside.begin() + range.offset, range.size, true);
    }
    return inside;
}

TEST(CompensatedSum, WorkedByHand) {
    // 2 + 0.5 * 4 * (1 - 0.5) = 3; -1 + 0.5 * 1 * (1 - 3) = -2; 4 as it is.
    const std::array<float, 3> a = {9, 2, 9};
    const std::array<float, 3> a_released = {9, 0.5, 9};
    const std::array<float, 3> b = {9, -1, 9};
    const std::array<float, 3> b_released = {9, 3, 9};
    const std::array<float, 3> c = {9, 4, 9};
    const std::array<float, 3> theta = {9, 1, 9};
    const std::array<SumTerm, 3> terms = {
        SumTerm{.values = a.data(), .coefficient = 0.5, .released = a_released.data()},
        {.values = b.data(), .coefficient = 0.25, .released = b_released.data()},
        {.values = c.data(), .coefficient = 0.25}};
    float sum = -7;
    compensated_sum(terms, theta.data(), 0.5, 1, &sum, 1);
    EXPECT_EQ(sum, 0.5F * 3 + 0.25F * -2 + 0.25F * 4);
}

class AnyServers : public testing::TestWithParam<int> {};

/// Three workers whose pushes arrive two at a time, so that each lags now and then.
TEST_P(AnyServers, DelayCompensationFollowsADoublePrecisionReference) {
    const Graph graph = test::server_graph();
    const std::vector<bool> inside = inside_tensors(graph);
    constexpr double kLambda = 0.3;
    constexpr double kLr = 0.05;
    constexpr double kMomentum = 0.5;
    ShardGroup group(graph, GetParam(), {.momentum = kMomentum});
    const std::vector<float> start = group.parameters();
    std::vector<double> theta(start.begin(), start.end());
    std::vector<double> u(theta.size());
    std::map<int, std::pair<std::int64_t, std::vector<double>>> sent;  // by worker
    const auto release = [&](int worker, std::int64_t version, double lag) {
        const double ahead = look_ahead_factor(kLr, kMomentum, lag);
        std::vector<double> values(theta);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] -= ahead * u[i];
        }
        sent[worker] = {version, std::move(values)};
    };
    FireOrder first;
    first.update.delay_compensation = kLambda;
    for (std::int32_t worker = 0; worker < 3; ++worker) {
        first.releases.push_back({.worker = worker});
        release(worker, 0, 0);
    }
    group.update({}, first);
    for (std::int64_t version = 1; version <= 5; ++version) {
        std::vector<TestPush> pushes;
        for (const std::int64_t turn : {2 * version, 2 * version + 1}) {
            const auto worker = static_cast<std::int32_t>(turn % 3);
            pushes.push_back(make_push(graph, {worker, 0, static_cast<std::uint64_t>(turn)},
                                       pushes.empty() ? 0.75 : 0.25,
                                       static_cast<std::uint64_t>(turn)));
        }
        FireOrder order = fire_order(version, pushes, {}, 0.5, kLr);
        order.update.delay_compensation = kLambda;
        std::vector<double> mean(theta.size());
        for (std::size_t p = 0; p < pushes.size(); ++p) {
            const auto& [base, released] = sent.at(pushes[p].id.worker);
            order.update.terms[p].version = base;
            for (std::size_t i = 0; i < theta.size(); ++i) {
                const double g = pushes[p].gradient[i];
                mean[i] += pushes[p].coefficient * (g + kLambda * g * g * (theta[i] - released[i]));
            }
        }
        const double keep = std::pow(kMomentum, 0.5);
        for (std::size_t i = 0; i < theta.size(); ++i) {
            const double next = keep * u[i] + (1 - keep) * mean[i];
            theta[i] -= kLr / (1 - kMomentum) *
                        (0.5 * mean[i] - kMomentum * (next - u[i]) / (1 - kMomentum));
            u[i] = next;
        }
        for (const TestPush& push : pushes) {
            order.releases.push_back({.worker = push.id.worker, .lag = 0.25});
            release(push.id.worker, version, 0.25);
        }
        group.update(pushes, order);
        const std::vector<float> got = group.parameters();
        for (std::size_t i = 0; i < theta.size(); ++i) {
            if (inside[i]) {
                ASSERT_NEAR(got[i], theta[i], 1e-5 * (1 + std::abs(theta[i])))
                    << "update " << version << ", parameter " << i;
            }
        }
    }
}

TEST_P(AnyServers, PushesAreComparedWithTheReference) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, GetParam(), {});
    const TestPush reference = make_push(graph, {0, 0, 1}, 1, 1);
    const TestPush push = make_push(graph, {1, 0, 1}, 1, 2);
    double product = 0;
    double squares = 0;
    for (std::size_t i = 0; i < push.gradient.size(); ++i) {
        const double v = reference.gradient[i];
        product += v * static_cast<double>(push.gradient[i]);
        squares += v * v;
    }
    PushReceived sum;
    for (int part = 0; part < GetParam(); ++part) {
        ServerShard& shard = group.shard(static_cast<std::size_t>(part));
        ASSERT_TRUE(stage(shard, reference));
        ASSERT_TRUE(stage(shard, push));
        PushReceived staged{.push = push.id};
        shard.compare(staged);
        EXPECT_EQ(staged.reference_squares, 0) << "there is none yet";
        shard.set_reference(reference.id);
        EXPECT_FALSE(shard.staging().is_here(reference.id));
        shard.compare(staged);
        sum.reference_dot += staged.reference_dot;
        sum.reference_squares += staged.reference_squares;
    }
    EXPECT_NEAR(sum.reference_dot, product, 1e-9 * squares);
    EXPECT_NEAR(sum.reference_squares, squares, 1e-9 * squares);
}

TEST_P(AnyServers, TheMeanGradientIsMeasured) {
    const Graph graph = test::server_graph();
    for (const int threads : {1, 2}) {
        ShardGroup group(graph, GetParam(), {}, threads);
        const std::vector<TestPush> pushes = {make_push(graph, {0, 0, 1}, 0.5, 1),
                                              make_push(graph, {1, 0, 1}, 0.25, 2)};
        FireOrder order = fire_order(1, pushes);
        order.update.ask_norm = true;
        const double squares = group.update(pushes, order);
        double wanted = 0;
        for (std::size_t i = 0; i < pushes[0].gradient.size(); ++i) {
            const double g = 0.5 * static_cast<double>(pushes[0].gradient[i]) +
                             0.25 * static_cast<double>(pushes[1].gradient[i]);
            wanted += g * g;
        }
        EXPECT_NEAR(squares, wanted, 1e-6 * wanted);
        const std::vector<TestPush> again = {make_push(graph, {0, 0, 2}, 1, 1),
                                             make_push(graph, {1, 0, 2}, 0.5, 2)};
        EXPECT_EQ(group.update(again, fire_order(2, again)), 0) << "nothing was asked";
    }
}

TEST_P(AnyServers, ADeltaMovesParametersAsItSays) {
    const Graph graph = test::server_graph();
    const std::vector<bool> inside = inside_tensors(graph);
    const double m = 0.9;
    ShardGroup group(graph, GetParam(), {.momentum = m, .weight_decay = 0.1});
    const std::vector<float> start = group.parameters();
    const std::vector<float> state = group.state();
    const std::vector<TestPush> pushes = {make_push(graph, {0, 0, 1}, 0.75, 1),
                                          make_push(graph, {1, 0, 1}, 0.25, 2)};
    FireOrder order = fire_order(1, pushes, {}, 2, 0.05);
    order.update.work = Work::kDelta;
    group.update(pushes, order);
    std::vector<float> velocity;
    for (int part = 0; part < GetParam(); ++part) {
        const auto slots = group.shard(static_cast<std::size_t>(part)).capture().optimizer_slots;
        velocity.insert(velocity.end(), slots[0].second.begin(), slots[0].second.end());
    }
    const std::vector<float> moved = group.parameters();
    for (std::size_t i = 0; i < start.size(); ++i) {
        const double delta = 0.75 * static_cast<double>(pushes[0].gradient[i]) +
                             0.25 * static_cast<double>(pushes[1].gradient[i]);
        const double u = -(1 - m * m) * (1 - m) / (0.05 * 2) * delta;
        ASSERT_NEAR(moved[i], inside[i] ? start[i] + delta : 0, 1e-6) << i;
        ASSERT_NEAR(velocity[i], inside[i] ? u : 0, 1e-5) << i;
    }
    const double step = 1 - std::pow(0.9, 2);
    for (std::size_t i = 0; i < state.size(); ++i) {
        const double mean = 0.75 * static_cast<double>(pushes[0].batch[i]) +
                            0.25 * static_cast<double>(pushes[1].batch[i]);
        EXPECT_NEAR(group.state()[i], state[i] + step * (mean - state[i]), 1e-6);
    }
}

INSTANTIATE_TEST_SUITE_P(, AnyServers, testing::Values(1, 2, 3));

TEST(ServerMath, APushOnUnknownParametersIsNotCompensated) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 1, {});
    ShardGroup plain(graph, 1, {});
    const std::vector<TestPush> pushes = {make_push(graph, {0, 0, 1}, 0.5, 1)};
    FireOrder order = fire_order(1, pushes);
    plain.update(pushes, order);
    order.update.delay_compensation = 0.5;
    group.update(pushes, order);
    EXPECT_EQ(group.parameters(), plain.parameters());
}

TEST(ServerMath, ReleasedParametersAreKeptOnlyAsLongAsTheyAreNeeded) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 1, {});
    ServerShard& shard = group.shard(0);
    const auto bytes = static_cast<std::uint64_t>(shard.range().floats()) * sizeof(float);
    for (std::int64_t version = 0; version <= 12; ++version) {
        std::vector<TestPush> pushes;
        if (version > 0) {
            pushes.push_back(make_push(graph, {0, 0, static_cast<std::uint64_t>(version)}, 1, 3));
            ASSERT_TRUE(stage(shard, pushes[0]));
        }
        FireOrder order = fire_order(version, pushes, {{.worker = 0}});
        order.update.delay_compensation = 0.1;
        for (UpdateTerm& push : order.update.terms) {
            push.version = version - 1;
        }
        fire(shard, order);
    }
    EXPECT_EQ(shard.snapshot_bytes_most(), 2 * bytes) << "what it computed on, and the next";

    ReleasedCopies copies;
    const auto values = std::make_shared<const float>(1.0F);
    for (std::int64_t version = 0; version < 10; ++version) {
        copies.put(0, version, values);
    }
    EXPECT_EQ(values.use_count(), 1 + static_cast<long>(ReleasedCopies::kMost));
    EXPECT_EQ(copies.take(0, 3), nullptr);
    EXPECT_NE(copies.take(0, 8), nullptr);
    EXPECT_EQ(copies.take(0, 8), nullptr);
    EXPECT_EQ(values.use_count(), 2);
    copies.put(0, 9, values);  // sent twice: two mini-batches
    EXPECT_NE(copies.take(0, 9), nullptr);
    EXPECT_NE(copies.take(0, 9), nullptr);
    EXPECT_EQ(values.use_count(), 1);
}

TEST(ServerMath, AdamwTakesADeltaWithoutItsMoments) {
    const Graph graph = test::server_graph();
    ShardGroup group(graph, 1, {.kind = OptimizerKind::kAdamW, .weight_decay = 0.1});
    const std::vector<TestPush> gradients = {make_push(graph, {0, 0, 1}, 1, 7)};
    group.update(gradients, fire_order(1, gradients));
    const ShardSnapshot before = group.shard(0).capture();
    const std::vector<TestPush> deltas = {make_push(graph, {0, 0, 2}, 1, 8)};
    FireOrder order = fire_order(2, deltas, {}, 4);
    order.update.work = Work::kDelta;
    group.update(deltas, order);
    const ShardSnapshot after = group.shard(0).capture();
    EXPECT_EQ(after.optimizer_slots, before.optimizer_slots);
    EXPECT_EQ(after.optimizer_scalars, before.optimizer_scalars);
    const std::vector<bool> inside = inside_tensors(graph);
    for (std::size_t i = 0; i < before.parameters.size(); ++i) {
        const float delta = inside[i] ? deltas[0].gradient[i] : 0;
        ASSERT_EQ(after.parameters[i], before.parameters[i] + delta);
    }
}

TEST(ServerMath, ADeltaOfPlainStepsKeepsTheVelocityOfPlainSteps) {
    // In steady state theta moves by eta g/(1-m) a step: u stays g.
    test::OptimizerRun run({.momentum = 0.9}, {0.0F});
    for (int step = 0; step < 200; ++step) {
        run.update({2.0F}, 1, 0.1);
    }
    ASSERT_NEAR(run.slot(0)[0], 2, 1e-4);
    std::vector<float> delta = {-4 * 0.1F * 2 / (1 - 0.9F)};
    run.optimizer->begin_delta(4, 0.1);
    run.optimizer->apply(0, run.theta, delta);
    EXPECT_NEAR(run.slot(0)[0], 2, 1e-3);
    const float before = run.slot(0)[0];
    run.optimizer->begin_delta(4, 0);
    run.optimizer->apply(0, run.theta, delta);
    EXPECT_EQ(run.slot(0)[0], before) << "steps of no length say nothing of the velocity";
}

}  // namespace
}  // namespace cohort
