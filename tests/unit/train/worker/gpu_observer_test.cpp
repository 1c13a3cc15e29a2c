// Steps of a replica in a device's memory: what is copied to the host and what stays. The memory is
// the CPU's here, so the numbers must be those of a replica that lies there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/train/worker_rig.hpp"
#include "train/worker/servers/push_buffers.hpp"
#include "train/worker/servers/worker_times.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {
namespace {

/// Keeps what it is told, and checks the order.
class Keeper final : public GradientObserver {
public:
    Keeper(const StepContext& parts, Pieces pieces, std::function<bool()> give_up = {})
        : GradientObserver(parts, std::move(give_up), false, pieces),
          gradient(parts.replica.gradients().size(), -77.0F) {}

    std::vector<float> gradient;
    std::vector<float> state;
    std::vector<std::int64_t> lows;

protected:
    void put(std::int64_t begin, std::span<const float> piece) override {
        EXPECT_FALSE(state.empty()) << "statistics come first";
        std::copy(piece.begin(), piece.end(), gradient.begin() + begin);
    }
    void put_statistics(std::span<const float> batch_state) override {
        EXPECT_TRUE(state.empty());
        state.assign(batch_state.begin(), batch_state.end());
    }
    void final_from(std::int64_t low) override { lows.push_back(low); }
};

/// A round of one member whose buffer lies in the replica's memory.
class OwnRounds final : public AllReduce {
public:
    explicit OwnRounds(std::size_t floats) : buffer(floats, -77.0F) {}
    [[nodiscard]] std::span<float> begin(std::uint64_t) override { return buffer; }
    void ready(std::int64_t begin, std::int64_t end) override {
        EXPECT_TRUE(ranges.empty() || ranges.back().first == end);
        ranges.emplace_back(begin, end);
    }
    void finish(const SummaryBytes&) override {}
    [[nodiscard]] std::optional<std::vector<SummaryBytes>> wait() override { return std::nullopt; }
    [[nodiscard]] AllReduceAlgorithm algorithm() const noexcept override {
        return AllReduceAlgorithm::kNccl;
    }

    std::vector<float> buffer;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

struct DeviceSteps : testing::Test {
    DeviceSteps() : rig("resnet20", 1, 1), lone(rig.job.graph), device(lone.replica) {
        lone.replica.initialise(5);
    }
    [[nodiscard]] StepContext on_device() { return {lone.replica, injector, &device}; }
    bool step(std::int64_t position, GradientObserver& observer) {
        const LoadedBatch batch = rig.batch(position, 8);
        const bool whole = lone.replica.train_step(view_of(batch), 1, observer).has_value();
        if (whole) {
            observer.finish();
        }
        return whole;
    }
    /// As the CPU would have it.
    double squares_of(std::int64_t position) {
        Keeper keeper({lone.replica, injector}, GradientObserver::Pieces::kHost);
        EXPECT_TRUE(step(position, keeper));
        return keeper.sum_of_squares();
    }

    test::WorkerRig rig;
    test::LoneReplica lone;
    WorkerDevice device;
    Injector injector{{}, 0, 1, std::make_shared<VirtualClock>()};
};

TEST_F(DeviceSteps, CopiesAreTheWholeGradientFromTheEndOn) {
    for (const auto pieces : {GradientObserver::Pieces::kHost, GradientObserver::Pieces::kDevice}) {
        Keeper keeper(on_device(), pieces);
        ASSERT_TRUE(step(0, keeper));
        EXPECT_THAT(keeper.gradient, testing::ElementsAreArray(lone.replica.gradients()));
        EXPECT_THAT(keeper.state, testing::ElementsAreArray(lone.replica.batch_state()));
        EXPECT_EQ(keeper.lows.back(), 0);
        EXPECT_TRUE(std::is_sorted(keeper.lows.rbegin(), keeper.lows.rend()));
        EXPECT_GE(keeper.lows.size(), 8U) << "while backward runs";
        EXPECT_GE(keeper.leaving_s(), 0);
        EXPECT_DOUBLE_EQ(keeper.sum_of_squares(), squares_of(0));
    }
}

TEST_F(DeviceSteps, AStepThatWasGivenUpLeavesNothingInTheNext) {
    for (const auto pieces : {GradientObserver::Pieces::kHost, GradientObserver::Pieces::kDevice}) {
        for (const int after : {0, 3, 12, 30}) {
            int asked = 0;
            Keeper given_up(on_device(), pieces, [&] { return ++asked > after; });
            ASSERT_FALSE(step(0, given_up));
            Keeper keeper(on_device(), pieces);
            ASSERT_TRUE(step(16, keeper));
            EXPECT_THAT(keeper.gradient, testing::ElementsAreArray(lone.replica.gradients()));
            EXPECT_DOUBLE_EQ(keeper.sum_of_squares(), squares_of(16)) << after;
        }
    }
}

TEST_F(DeviceSteps, ARingOfOneCopiesNothing) {
    AloneObserver alone(on_device());
    ASSERT_TRUE(step(0, alone));
    EXPECT_DOUBLE_EQ(alone.sum_of_squares(), squares_of(0));
    EXPECT_EQ(device.copies.gradients().data(), nullptr) << "no memory for it either";
}

TEST_F(DeviceSteps, ARoundOnTheDeviceHasTheBitsOfOneOnTheHost) {
    const std::size_t parameters = lone.replica.gradients().size();
    const std::size_t floats = parameters + lone.replica.state().size();
    std::shared_ptr<float[]> rider = std::make_shared<float[]>(floats);
    for (std::size_t i = 0; i < floats; ++i) {
        rider[i] = 1e-3F * static_cast<float>(i % 97);
    }
    const std::vector<AddedPush> added{{std::shared_ptr<const float>(rider, rider.get()), 0.25F},
                                       {std::shared_ptr<const float>(rider, rider.get()), 0.125F}};
    OwnRounds there(floats);
    RingObserver on_there(on_device(), there, there.buffer, 0.625F, added);
    ASSERT_TRUE(step(0, on_there));
    const auto host = make_solo_all_reduce(static_cast<std::int64_t>(floats));
    const std::span<float> here = host->begin(1);
    for (const StepContext& parts : {StepContext{lone.replica, injector}, on_device()}) {
        std::fill(here.begin(), here.end(), -77.0F);
        RingObserver on_here(parts, *host, here, 0.625F, added);
        ASSERT_TRUE(step(0, on_here));
        EXPECT_THAT(there.buffer, testing::ElementsAreArray(here));
        EXPECT_DOUBLE_EQ(on_there.sum_of_squares(), on_here.sum_of_squares());
    }
    EXPECT_EQ(there.ranges.front().second, static_cast<std::int64_t>(floats));
    EXPECT_EQ(there.ranges.back().first, 0) << "every float is announced once";
}

TEST_F(DeviceSteps, UploadsAreCopiesUntilTheNext) {
    const std::vector<float> small(16, 1);
    const std::vector<float> large(64, 2);
    EXPECT_THAT(device.upload(small), testing::ElementsAreArray(small));
    EXPECT_THAT(device.upload(large), testing::ElementsAreArray(large));
    EXPECT_THAT(device.upload(small), testing::ElementsAreArray(small));
}

/// A step that fails after some ranges, in the order of backward or not.
TEST_F(DeviceSteps, TheRestOfAStepThatFailedIsAnnouncedOnce) {
    const std::int64_t total = lone.replica.graph().parameters().total();
    const std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> before{
        {},        {{total - 32, total}}, {{total - 16, total}, {total - 96, total - 42}},
        {{0, 16}}, {{0, total}},
    };
    for (const auto& ranges : before) {
        for (const StepContext& parts : {on_device(), StepContext{lone.replica, injector}}) {
            Keeper keeper(parts, GradientObserver::Pieces::kHost);
            const std::function<void()> nothing;
            AnnouncedRanges announced(keeper, nothing);
            for (const auto& [begin, end] : ranges) {
                announced.gradient_ready(begin, end);
            }
            announced.announce_rest(total);
            keeper.finish();
            EXPECT_EQ(keeper.lows.back(), 0);
            EXPECT_THAT(keeper.gradient, testing::Each(testing::Ne(-77.0F)));
        }
    }
}

TEST(DeviceTime, WhatTheDeviceDidNotTakeBelongsToTheExchange) {
    VirtualClock clock;
    IterationTimes times(clock);
    times.begin();
    clock.advance(Clock::Seconds(3));
    times.computed(1.5, 2.0);
    EXPECT_DOUBLE_EQ(times.times().compute_s, 2);
    EXPECT_DOUBLE_EQ(times.times().leaving_s, 1.5);
    clock.advance(Clock::Seconds(0.5));
    times.parameters(0.25);
    times.begin();
    EXPECT_DOUBLE_EQ(times.times().exchange_s, 1.5) << "the second after it, and what followed";
    clock.advance(Clock::Seconds(1));
    times.computed(4, 1.25);
    EXPECT_DOUBLE_EQ(times.times().compute_s, 1) << "clocks differ";
    EXPECT_DOUBLE_EQ(times.times().leaving_s, 1);
}

}  // namespace
}  // namespace cohort
