// A shard whose pushes and parameters travel rounded equals one that is given what the rounded
// bytes stand for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "support/train/server_pushes.hpp"

namespace cohort {
namespace {

using test::fire;
using test::make_push;
using test::TestPush;

constexpr PushId kPush{.worker = 0, .incarnation = 0, .sequence = 1};

std::vector<std::uint16_t> shorts_of(std::span<const float> values) {
    std::vector<std::uint16_t> shorts(values.size());
    narrow_to_bf16(values, shorts.data());
    return shorts;
}

std::vector<float> rounded(std::span<const float> values) {
    std::vector<float> to(values.size());
    widen_bf16(shorts_of(values).data(), to);
    return to;
}

TestPush rounded(TestPush push) {
    push.gradient = rounded(std::span<const float>(push.gradient));
    push.batch = rounded(std::span<const float>(push.batch));
    return push;
}

void stage_rounded(ServerShard& shard, const TestPush& push) {
    const std::vector<std::uint16_t> shorts = shorts_of(push.part(shard.range()));
    const Message announcement{.body = encode(PushHeader{.push = push.id})};
    const std::span<std::byte> to = shard.staging().accept(announcement, shorts.size() * 2);
    ASSERT_EQ(to.size(), shorts.size() * 2);
    std::memcpy(to.data(), shorts.data(), to.size());
    ASSERT_TRUE(shard.staging().arrived(push.id));
}

class ServerWire : public testing::TestWithParam<int> {
protected:
    ServerWire() : ranges_(cut_shards(graph_, GetParam())) {}
    [[nodiscard]] ServerShard shard(const ShardRange& range, Wire wire) const {
        return {graph_, range, OptimizerOptions(), 1, nullptr, wire};
    }
    Graph graph_ = test::server_graph();
    std::vector<ShardRange> ranges_;
};
INSTANTIATE_TEST_SUITE_P(Shards, ServerWire, testing::Values(1, 2, 3));

TEST_P(ServerWire, WhatIsSentIsWhatTheUpdateLeavesRounded) {
    for (const ShardRange& range : ranges_) {
        ServerShard plain = shard(range, Wire::kF32);
        ServerShard wired = shard(range, Wire::kBf16);
        for (ServerShard* one : {&plain, &wired}) {
            one->initialise(7, 0);
        }
        for (std::int64_t version = 1; version <= 3; ++version) {
            const PushId id{
                .worker = 0, .incarnation = 0, .sequence = static_cast<std::uint64_t>(version)};
            const TestPush push = make_push(graph_, id, 1, 10 + id.sequence);
            ASSERT_TRUE(stage(plain, rounded(push)));
            stage_rounded(wired, push);
            const FireOrder order =
                test::fire_order(version, {push}, {{.worker = 0}, {.worker = 1, .lag = 1.5}});
            const FireOutput want = fire(plain, order);
            const FireOutput got = fire(wired, order);
            ASSERT_EQ(got.copies.size(), 2U);
            for (std::size_t i = 0; i < got.copies.size(); ++i) {
                const auto count = static_cast<std::size_t>(range.floats());
                const std::span<const float> values(want.copies[i].values.get(), count);
                EXPECT_EQ(std::memcmp(got.copies[i].values.get(), values.data(), count * 4), 0);
                const auto parameters = static_cast<std::size_t>(range.parameters());
                const auto sent = wired.as_sent(got.copies[i].values.get(), Wire::kBf16);
                ASSERT_EQ(sent.size(), 2 * parameters + 4 * static_cast<std::size_t>(range.state));
                EXPECT_EQ(std::memcmp(sent.data(), shorts_of(values.first(parameters)).data(),
                                      2 * parameters),
                          0);
                EXPECT_EQ(std::memcmp(sent.data() + 2 * parameters, values.data() + parameters,
                                      4 * static_cast<std::size_t>(range.state)),
                          0);
                const auto whole = wired.as_sent(got.copies[i].values.get(), Wire::kF32);
                ASSERT_EQ(whole.size(), count * 4);
                EXPECT_EQ(std::memcmp(whole.data(), values.data(), count * 4), 0);
            }
        }
    }
}

TEST_P(ServerWire, ADelayIsCompensatedFromWhatTheWorkerReceived) {
    const ShardRange& range = ranges_.back();
    ServerShard wired = shard(range, Wire::kBf16);
    wired.initialise(7, 0);
    const auto count = static_cast<std::size_t>(range.parameters());
    const FireOrder release{.update = {.delay_compensation = 0.7}, .releases = {{.worker = 0}}};
    (void)fire(wired, release);
    const std::vector<float> before(wired.store().parameters().begin(),
                                    wired.store().parameters().end());
    const TestPush push = make_push(graph_, kPush, 1, 3);
    stage_rounded(wired, push);
    FireOrder order = test::fire_order(1, {push}, {}, 1, 1.0);
    order.update.delay_compensation = 0.7;
    (void)fire(wired, order);
    // The parameters did not change between the release and the update: what is compensated is
    // their rounding.
    const std::vector<float> received = rounded(before);
    const std::vector<float> g =
        rounded(std::span(push.gradient).subspan(static_cast<std::size_t>(range.begin), count));
    std::size_t compensated = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (wired.store().parameters()[i] == before[i]) {
            continue;  // padding between tensors
        }
        const float gradient = g[i] + 0.7F * g[i] * g[i] * (before[i] - received[i]);
        EXPECT_NEAR(before[i] - wired.store().parameters()[i], gradient,
                    2e-6F + 1e-6F * std::abs(before[i]));
        compensated += before[i] != received[i] ? 1 : 0;
    }
    EXPECT_GT(compensated, count / 2);
}

TEST_P(ServerWire, APushOfAnotherSizeIsRefused) {
    ServerShard wired = shard(ranges_.front(), Wire::kBf16);
    const Message announcement{.body = encode(PushHeader{.push = kPush})};
    const auto floats = static_cast<std::uint64_t>(ranges_.front().floats());
    EXPECT_TRUE(wired.staging().accept(announcement, floats * sizeof(float)).empty());
    EXPECT_THROW((void)wired.staging().arrived(kPush), PeerError);
}

}  // namespace
}  // namespace cohort
