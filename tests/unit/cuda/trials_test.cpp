// How candidates are measured: on a device whose clock a test sets, and on a stream that notes what
// is asked of it.
#include "layers/cuda/dnn/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/cuda/dnn/dnn_choice.hpp"
#include "layers/cuda/rules/part_sizes.hpp"

namespace cohort::cuda {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// A GPU that was idle: its clock rises from a fifth to the whole while it works for `ramp`
/// seconds.
class RisingClock {
public:
    RisingClock(std::vector<double> work, double ramp) : work_(std::move(work)), ramp_(ramp) {}

    /// Runs candidate `i`.
    double operator()(std::size_t i) {
        order.push_back(i);
        const double speed = ramp_ > 0 ? std::min(1.0, 0.2 + 0.8 * busy / ramp_) : 1.0;
        const double seconds = work_[i] / speed;
        busy += seconds < kInfinite ? seconds : 0;
        return seconds;
    }

    double busy = 0;
    std::vector<std::size_t> order;

private:
    std::vector<double> work_;  ///< seconds at the whole clock
    double ramp_;
};

int choice(RisingClock& gpu, std::size_t candidates, double warm_up) {
    return index_of_least(
        seconds_in_turn(candidates, warm_up, [&](std::size_t i) { return gpu(i); }));
}

TEST(Trials, AClockThatRisesDoesNotChangeTheChoice) {
    // Differences of 2 %, the fastest first, in the middle and last.
    for (const std::size_t fastest : {0, 3, 7}) {
        std::vector<double> work(8, 1.02e-3);
        work[fastest] = 1e-3;
        for (const double ramp : {0.0, 0.01, 0.05, 0.1}) {
            RisingClock gpu(work, ramp);
            EXPECT_EQ(choice(gpu, work.size(), 0.1), static_cast<int>(fastest)) << ramp;
        }
    }
    // One after the other, the fastest of five each, the first candidate is measured too slow.
    RisingClock gpu({1e-3, 1.02e-3}, 0.05);
    std::vector<double> alone(2, kInfinite);
    for (std::size_t i = 0; i < 2; ++i) {
        for (int run = 0; run < 5; ++run) {
            alone[i] = std::min(alone[i], gpu(i));
        }
    }
    EXPECT_EQ(index_of_least(alone), 1) << "what the turns are for";
}

TEST(Trials, ASlowRiseCancelsOutOfRoundsInOppositeOrder) {
    RisingClock gpu({1.02e-3, 1.02e-3, 1e-3}, 10);  // warming up does not end it
    EXPECT_EQ(choice(gpu, 3, 0.1), 2);
}

TEST(Trials, OutliersDoNotCount) {
    int calls = 0;
    const auto seconds = seconds_in_turn(2, 0, [&](std::size_t i) {
        ++calls;
        const bool disturbed = calls == 4 || calls == 7;
        return (i == 0 ? 1.0 : 1.1) * (disturbed ? 50 : 1);
    });
    EXPECT_THAT(seconds, testing::ElementsAre(1.0, 1.1));
}

TEST(Trials, WarmsUpOnceThenMeasuresInTurn) {
    RisingClock gpu({0.03, 0.02}, 0);
    static_cast<void>(choice(gpu, 2, 0.1));
    // Once each; in turn until 0.1 s are over; five rounds, every other one backwards.
    EXPECT_THAT(gpu.order, testing::ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1));
    EXPECT_GT(warm_up_of(7), 0);
    EXPECT_EQ(warm_up_of(7), 0) << "once in a process";
    EXPECT_GT(warm_up_of(8), 0) << "and on each GPU";
}

TEST(Trials, WhatCannotBeUsedIsNotAskedAgain) {
    RisingClock gpu({kInfinite, 1e-3, kInfinite}, 0);
    EXPECT_EQ(choice(gpu, 3, 0), 1);
    EXPECT_EQ(std::count(gpu.order.begin(), gpu.order.end(), 0U), 1);
    RisingClock none({kInfinite, kInfinite}, 0);
    EXPECT_EQ(choice(none, 2, 0.1), -1);
    EXPECT_EQ(choice(none, 0, 0.1), -1);
    EXPECT_THAT(seconds_in_turn(1, 0.1, [](std::size_t) { return 0.0; }), testing::ElementsAre(0))
        << "a clock that stands still ends the warming up, too";
}

TEST(TrialBudget, LimitsEnginesAndCompilersAndAll) {
    TrialBudget budget;
    int taken = 0;
    const auto offer = [&](bool compiled, int variant, std::int64_t engine) {
        const bool allowed = budget.allows(compiled, {variant, engine});
        if (allowed) {
            budget.take(compiled, {variant, engine});
            ++taken;
        }
        return allowed;
    };
    for (int knobs = 0; knobs < 10; ++knobs) {
        EXPECT_EQ(offer(false, 0, 5), knobs < 4);
    }
    EXPECT_TRUE(offer(false, 1, 5)) << "an engine of another graph";
    for (std::int64_t engine = 10; engine < 40; ++engine) {
        offer(false, 0, engine);
    }
    EXPECT_EQ(taken, 14);
    EXPECT_TRUE(offer(true, 1, 1)) << "room is kept for them";
    EXPECT_TRUE(offer(true, 1, 2));
    EXPECT_FALSE(offer(true, 1, 3));
    EXPECT_EQ(taken, TrialBudget::kMost);
}

TEST(NearestChoice, IsWithinAFactorOfTwo) {
    EXPECT_EQ(nearest_choice({}, 10), nullptr);
    const EngineChoices choices{{10, {.engine = 1}}, {16, {.engine = 2}}, {100, {.engine = 3}}};
    const auto engine = [&](std::int64_t samples) {
        const EngineChoice* found = nearest_choice(choices, samples);
        return found == nullptr ? std::int64_t{0} : found->engine;
    };
    EXPECT_EQ(engine(4), 0);
    EXPECT_EQ(engine(5), 1);
    EXPECT_EQ(engine(10), 1);
    EXPECT_EQ(engine(12), 1);
    EXPECT_EQ(engine(13), 2);
    EXPECT_EQ(engine(32), 2);
    EXPECT_EQ(engine(33), 0);
    EXPECT_EQ(engine(50), 3);
    EXPECT_EQ(engine(200), 3);
    EXPECT_EQ(engine(201), 0);
}

/// A stream whose clock goes on by a second with each piece of work.
class CountingStream final : public Stream {
public:
    void copy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) override {}
    void fill_zero(void* /*to*/, std::size_t /*bytes*/) override {}
    std::unique_ptr<cohort::Event> record() override { return std::make_unique<At>(clock); }
    void wait_for(const cohort::Event& /*event*/) override {}
    void synchronize() override {}
    bool begin_recording() override {
        recording = can_record;
        return can_record;
    }
    std::unique_ptr<Recording> end_recording() override {
        recording = false;
        return std::make_unique<Played>(*this, std::exchange(recorded, 0));
    }
    void work(double seconds) {
        if (recording) {
            recorded += seconds;
        } else {
            clock += seconds;
        }
    }

    double clock = 0;
    double recorded = 0;
    bool recording = false;
    bool can_record = true;
    int played = 0;

private:
    class At final : public cohort::Event {
    public:
        explicit At(double at) : at_(at) {}
        bool done() const override { return true; }
        void wait() const override {}
        double seconds_since(const cohort::Event& earlier) const override {
            return at_ - dynamic_cast<const At&>(earlier).at_;
        }

    private:
        double at_;
    };
    class Played final : public Recording {
    public:
        Played(CountingStream& stream, double seconds) : stream_(stream), seconds_(seconds) {}
        void queue() override {
            ++stream_.played;
            stream_.work(seconds_);
        }
        [[nodiscard]] std::size_t size() const override { return 1; }

    private:
        CountingStream& stream_;
        double seconds_;
    };
};

TEST(TimedWork, IsRecordedSeveralRunsInARowWhereTheyAreShort) {
    for (const double seconds : {1e-6, 3e-5, 2.0}) {
        CountingStream stream;
        int queued = 0;
        TimedWork work(stream, [&] {
            ++queued;
            stream.work(seconds);
        });
        EXPECT_FALSE(work.has_run());
        for (int run = 0; run < 3; ++run) {
            EXPECT_NEAR(work.seconds(), seconds, 1e-9);
        }
        EXPECT_TRUE(work.has_run());
        EXPECT_EQ(stream.played, 2);
        EXPECT_EQ(queued, 2 + (seconds < 1e-5 ? 10 : seconds < 1 ? 3 : 1));
    }
}

TEST(TimedWork, IsQueuedWhereNothingIsRecorded) {
    CountingStream stream;
    stream.can_record = false;
    TimedWork work(stream, [&] { stream.work(0.5); });
    EXPECT_EQ(work.seconds(), 0.5);
    EXPECT_EQ(work.seconds(), 0.5);
    EXPECT_EQ(stream.played, 0);
}

TEST(TimedWork, ThatFailsIsInfinite) {
    CountingStream stream;
    TimedWork refused(stream, [] { throw DeviceError("refused"); });
    EXPECT_EQ(seconds_or_infinite(refused), kInfinite);
    TimedWork not_recorded(stream, [&] {
        if (stream.recording) {
            throw DeviceError("cannot be recorded");
        }
    });
    EXPECT_EQ(seconds_or_infinite(not_recorded), kInfinite);
    EXPECT_FALSE(stream.recording) << "the stream records no longer";
}

/// Copies at once.
class CopyingStream final : public Stream {
public:
    void copy(void* to, const void* from, std::size_t bytes) override {
        std::memcpy(to, from, bytes);
    }
    void fill_zero(void* /*to*/, std::size_t /*bytes*/) override {}
    std::unique_ptr<cohort::Event> record() override { return nullptr; }
    void wait_for(const cohort::Event& /*event*/) override {}
    void synchronize() override {}
};

TEST(RandomNumbers, FillMemoryOfAnySize) {
    CopyingStream stream;
    for (const std::size_t count : {1, 3, 65537, 200'003}) {
        std::vector<float> values(count + 1, 7.0F);
        fill_random(stream, ElementType::kF32, values.data(), count * sizeof(float));
        EXPECT_EQ(values.back(), 7.0F);
        values.pop_back();
        double squares = 0;
        for (const float value : values) {
            ASSERT_LT(std::abs(value), 1.0F);
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
        if (count > 1000) {
            EXPECT_NEAR(squares / static_cast<double>(count), 1.0 / 3, 0.01);
        }
    }
}

TEST(PartSizes, ABatchThatGoesTakesThePartsThatNoOtherHas) {
    PartSizes parts(8);
    EXPECT_THAT(parts.add(20), testing::ElementsAre(8, 4));
    EXPECT_THAT(parts.add(16), testing::ElementsAre(8));
    EXPECT_THAT(parts.add(4), testing::ElementsAre(4));
    EXPECT_THAT(parts.add(8), testing::ElementsAre(8));
    EXPECT_THAT(parts.remove(20), testing::ElementsAre());
    EXPECT_THAT(parts.remove(4), testing::ElementsAre(4));
    EXPECT_THAT(parts.remove(8), testing::ElementsAre());
    EXPECT_THAT(parts.remove(16), testing::ElementsAre(8));
}

}  // namespace
}  // namespace cohort::cuda
