// Mini-batches that only take time.
#include "train/run/sleep_compute.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ParseCompute, TakesATimeWithItsUnit) {
    EXPECT_EQ(parse_compute("network").sleep_s, std::nullopt);
    EXPECT_EQ(parse_compute("network").recording, std::nullopt);
    EXPECT_DOUBLE_EQ(*parse_compute("sleep:40ms").sleep_s, 0.04);
    EXPECT_DOUBLE_EQ(*parse_compute("sleep:1.5s").sleep_s, 1.5);
    for (const char* text :
         {"", "sleep", "sleep:", "sleep:40", "sleep:0s", "sleep:-1s", "sleep:infs", "Network",
          "nap:1s", "sleep:1s+", "+recorded:vgg13", "recorded:vgg13", "sleep:1s recorded:vgg13"}) {
        EXPECT_THAT([&] { (void)parse_compute(text); },
                    ThrowsMessage<UsageError>(HasSubstr("sleep:T")))
            << text;
    }
}

TEST(ParseCompute, TakesARecordingOnTopOfEither) {
    const ComputeChoice asleep = parse_compute("sleep:40ms+recorded:a+recorded:b");
    EXPECT_DOUBLE_EQ(*asleep.sleep_s, 0.04);
    EXPECT_EQ(asleep.recording, "a+recorded:b") << "a file may have any name";
    const ComputeChoice awake = parse_compute("network+recorded:vgg13");
    EXPECT_EQ(awake.sleep_s, std::nullopt);
    EXPECT_EQ(awake.recording, "vgg13");
    EXPECT_EQ(parse_compute("network+recorded:").recording, "") << "no recording has this name";
}

/// Notes what it is told.
struct Observer final : StepObserver {
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        ranges.emplace_back(begin, end);
        questions_before.push_back(questions);
    }
    bool should_interrupt() override { return ++questions > allowed; }

    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    std::vector<int> questions_before;
    int questions = 0;
    int allowed = 1 << 30;
};

class SleepComputeTest : public testing::Test {
protected:
    /// A sleeper whose sleeps end so much later than asked for.
    SleepCompute compute(double seconds_per_sample, double over = 0) {
        return SleepCompute(
            make_model("smallcnn", Shape({1, 8, 8}), 4), *device, seconds_per_sample, clock,
            [this, over](Clock::Seconds time) { clock->advance(time + Clock::Seconds(over)); });
    }
    static constexpr std::uint64_t kSeed = 0;
    static BatchView batch(std::int64_t size) { return {.size = size}; }

    std::unique_ptr<Device> device = make_cpu_device(1);
    std::shared_ptr<VirtualClock> clock = std::make_shared<VirtualClock>();
};

TEST_F(SleepComputeTest, TakesTimeInProportionToTheSamples) {
    SleepCompute sleeper = compute(0.001);
    for (const std::int64_t samples : {64, 8}) {
        Observer observer;
        const Clock::Seconds before = clock->now();
        const auto result = sleeper.train_step(batch(samples), kSeed, observer);
        ASSERT_TRUE(result);
        EXPECT_EQ(result->samples, samples);
        EXPECT_EQ(result->loss_sum, 0);
        EXPECT_NEAR((clock->now() - before).count(), 0.001 * static_cast<double>(samples), 1e-3);
        EXPECT_GE(observer.questions, 8);
    }
}

TEST_F(SleepComputeTest, OversleepingIsPaidBack) {
    SleepCompute sleeper = compute(0.001, 0.002);
    const Clock::Seconds before = clock->now();
    for (int step = 0; step < 20; ++step) {
        Observer observer;
        (void)sleeper.train_step(batch(50), kSeed, observer);
    }
    EXPECT_NEAR((clock->now() - before).count(), 1.0, 0.01);
}

TEST_F(SleepComputeTest, AnnouncesTheWholeGradientBackwardsInTheSecondHalf) {
    SleepCompute sleeper = compute(0.001);
    std::ranges::fill(sleeper.state(), 2.0F);
    Observer observer;
    ASSERT_TRUE(sleeper.train_step(batch(100), kSeed, observer));
    ASSERT_GE(observer.ranges.size(), 2U);
    std::int64_t end = sleeper.graph().parameters().total();
    for (const auto& [first, last] : observer.ranges) {
        EXPECT_EQ(last, end);
        EXPECT_LT(first, last);
        end = first;
    }
    EXPECT_EQ(end, 0);
    EXPECT_GT(observer.questions_before.front(), observer.questions / 2);
    EXPECT_THAT(std::vector<float>(sleeper.gradients().begin(), sleeper.gradients().end()),
                Each(0.0F));
    EXPECT_THAT(std::vector<float>(sleeper.batch_state().begin(), sleeper.batch_state().end()),
                Each(2.0F))
        << "folding them in changes nothing";
}

TEST_F(SleepComputeTest, IsInterruptedBetweenTwoPieces) {
    SleepCompute sleeper = compute(0.001);
    Observer observer;
    observer.allowed = 3;
    EXPECT_FALSE(sleeper.train_step(batch(100), kSeed, observer));
    EXPECT_EQ(observer.questions, 4);
    EXPECT_LT(clock->now().count(), 0.05);
}

}  // namespace
}  // namespace cohort
