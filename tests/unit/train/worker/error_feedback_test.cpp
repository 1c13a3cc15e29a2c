// What is rounded away of pushes comes later, whatever becomes of them.
#include "train/worker/servers/error_feedback.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "core/bf16.hpp"
#include "train/worker/node_staging.hpp"

namespace cohort {
namespace {

using Outcome = PushOutcomes::Outcome;

constexpr std::size_t kFloats = 257;

std::vector<float> gradient_of(std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(kFloats);
    for (float& value : values) {
        value = normal(random);
    }
    return values;
}

/// The values as servers receive them.
std::vector<float> push(ErrorFeedback& feedback, std::uint64_t sequence,
                        const std::vector<float>& values, Work work = Work::kGradient) {
    ErrorFeedback::Push& made = feedback.begin(sequence, work);
    std::vector<std::uint16_t> sent(kFloats);
    std::vector<float> received(kFloats);
    narrow_with_rest(values, made.before.data(), made.after.data(), sent.data());
    widen_bf16(sent.data(), received);
    return received;
}

void add(std::vector<double>& sum, const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        sum[i] += values[i];
    }
}

/// Pushes overlap, are decided late and in any order, half of them are not used.
TEST(ErrorFeedback, AppliedPushesAndTheRestAddUpToTheirGradients) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        std::mt19937 random(seed);
        ErrorFeedback feedback(kFloats);
        struct Open {
            std::uint64_t sequence;
            std::vector<float> gradient;
            std::vector<float> sent;
        };
        std::vector<Open> open;
        std::vector<double> made(kFloats);
        std::vector<double> sent(kFloats);
        const auto decide = [&] {
            const auto at = open.begin() + static_cast<std::ptrdiff_t>(random() % open.size());
            const bool applied = random() % 2 == 0;
            feedback.decide(at->sequence, applied);
            if (applied) {
                add(made, at->gradient);
                add(sent, at->sent);
            }
            open.erase(at);
        };
        for (std::uint64_t sequence = 1; sequence <= 300; ++sequence) {
            std::vector<float> gradient = gradient_of(random);
            std::vector<float> received = push(feedback, sequence, gradient);
            open.push_back({sequence, std::move(gradient), std::move(received)});
            while (open.size() > random() % 3) {
                decide();
            }
        }
        while (!open.empty()) {
            decide();
        }
        add(sent, {feedback.kept(Work::kGradient).begin(), feedback.kept(Work::kGradient).end()});
        for (std::size_t i = 0; i < kFloats; ++i) {
            ASSERT_NEAR(sent[i], made[i], 1e-4) << "seed " << seed;
        }
    }
}

TEST(ErrorFeedback, APushThatIsNotUsedLeavesEverythingAsItWas) {
    std::mt19937 random(1);
    ErrorFeedback feedback(kFloats);
    (void)push(feedback, 1, gradient_of(random));
    feedback.decide(1, true);
    const std::vector<float> before(feedback.kept(Work::kGradient).begin(),
                                    feedback.kept(Work::kGradient).end());
    ASSERT_EQ(before.size(), kFloats);
    (void)push(feedback, 2, gradient_of(random));
    EXPECT_TRUE(feedback.kept(Work::kGradient).empty());
    feedback.decide(2, false);
    EXPECT_EQ(std::vector<float>(feedback.kept(Work::kGradient).begin(),
                                 feedback.kept(Work::kGradient).end()),
              before);
}

TEST(ErrorFeedback, GradientsAndDeltasAreKeptApart) {
    std::mt19937 random(1);
    ErrorFeedback feedback(kFloats);
    (void)push(feedback, 1, gradient_of(random));
    feedback.decide(1, true);
    const std::vector<float> zeros(kFloats);
    EXPECT_EQ(push(feedback, 2, zeros, Work::kDelta), zeros);
    feedback.decide(2, true);
    EXPECT_NE(push(feedback, 3, zeros), zeros);
}

TEST(ErrorFeedback, NothingIsKeptWhenTheWorkerBeginsAnew) {
    std::mt19937 random(1);
    ErrorFeedback feedback(kFloats);
    (void)push(feedback, 1, gradient_of(random));
    feedback.decide(1, true);
    (void)push(feedback, 2, gradient_of(random));
    feedback.clear();
    feedback.decide(2, true);
    EXPECT_TRUE(feedback.kept(Work::kGradient).empty());
}

/// A node's sum as it leaves, made in blocks.
std::vector<float> leaving(SumRounding& rounding, const NodeSumOrder& order,
                           const std::vector<float>& values) {
    std::vector<float> memory(static_cast<std::size_t>(rounding.memory()));
    std::ranges::copy(values, memory.begin());
    constexpr std::int64_t kAll = kFloats;
    for (std::int64_t at = 0; at < kAll; at += 100) {
        rounding.round(order, memory.data(), at, std::min<std::int64_t>(100, kAll - at));
    }
    const auto sent = rounding.leaving(memory.data(), 0, kAll);
    std::vector<float> received(kFloats);
    if (rounding.wire() == Wire::kF32) {
        EXPECT_EQ(sent.size(), kFloats * sizeof(float));
        std::memcpy(received.data(), sent.data(), sent.size());
    } else {
        EXPECT_EQ(sent.size(), kFloats * sizeof(std::uint16_t));
        widen_bf16(reinterpret_cast<const std::uint16_t*>(sent.data()), received);
    }
    return received;
}

TEST(SumRounding, WhatIsRoundedAwayOfSumsOfOneKindComesWithTheNext) {
    std::mt19937 random(2);
    const std::vector<float> zeros(kFloats);
    const NodeSumOrder gradients{.sum = node_sum(0, 1), .terms = {}};
    NodeSumOrder deltas = gradients;
    deltas.work = Work::kDelta;
    SumRounding rounding(Wire::kBf16, kFloats);
    std::vector<double> made(kFloats);
    std::vector<double> sent(kFloats);
    for (int update = 0; update < 50; ++update) {
        const std::vector<float> sum = gradient_of(random);
        add(made, sum);
        add(sent, leaving(rounding, gradients, sum));
    }
    for (int update = 0; update < 5; ++update) {
        add(sent, leaving(rounding, gradients, zeros));  // the rest of the rest, and so on
    }
    for (std::size_t i = 0; i < kFloats; ++i) {
        ASSERT_NEAR(sent[i], made[i], 1e-4);
    }
    EXPECT_NE(leaving(rounding, gradients, gradient_of(random)), zeros);
    EXPECT_EQ(leaving(rounding, deltas, zeros), zeros);
}

TEST(SumRounding, ASumThatIsMadeAgainIsRoundedByItself) {
    std::mt19937 random(3);
    SumRounding rounding(Wire::kBf16, kFloats);
    const NodeSumOrder first{.sum = node_sum(0, 1), .terms = {}};
    const NodeSumOrder again{.sum = node_sum(0, 1, 1), .terms = {}};
    const std::vector<float> sum = gradient_of(random);
    EXPECT_EQ(leaving(rounding, first, sum), leaving(rounding, again, sum));
    EXPECT_NE(leaving(rounding, first, sum), leaving(rounding, again, sum)) << "with a rest";
    SumRounding plain(Wire::kF32, kFloats);
    EXPECT_EQ(leaving(plain, first, sum), sum);
}

TEST(PushOutcomes, TellOfEveryPushInAnyOrder) {
    PushOutcomes outcomes;
    const auto note = [&](std::uint64_t sequence, bool applied) {
        outcomes.note({.worker = 2, .incarnation = 1, .sequence = sequence}, applied);
    };
    EXPECT_EQ(outcomes.of(1), Outcome::kOpen);
    note(2, true);
    note(5, false);
    note(4, true);
    EXPECT_EQ(outcomes.of(1), Outcome::kOpen);
    EXPECT_EQ(outcomes.of(2), Outcome::kApplied);
    EXPECT_EQ(outcomes.of(3), Outcome::kOpen);
    EXPECT_EQ(outcomes.of(4), Outcome::kApplied);
    EXPECT_EQ(outcomes.of(5), Outcome::kNotUsed);
    EXPECT_EQ(outcomes.of(6), Outcome::kOpen);
    note(65, true);
    EXPECT_EQ(outcomes.of(2), Outcome::kApplied);
    note(66, true);
    EXPECT_EQ(outcomes.of(2), Outcome::kNotUsed) << "too long ago";
    EXPECT_EQ(outcomes.of(3), Outcome::kOpen);
    note(500, false);
    EXPECT_EQ(outcomes.of(66), Outcome::kNotUsed);
}

TEST(PushOutcomes, OfAnOlderIncarnationDoNotCount) {
    PushOutcomes outcomes;
    outcomes.note({.worker = 0, .incarnation = 1, .sequence = 9}, true);
    outcomes.note({.worker = 0, .incarnation = 2, .sequence = 1}, true);
    outcomes.note({.worker = 0, .incarnation = 1, .sequence = 10}, true);
    EXPECT_EQ(outcomes.newest, 1U);
    EXPECT_EQ(outcomes.incarnation, 2U);
    EXPECT_EQ(outcomes.of(1), Outcome::kApplied);
}

}  // namespace
}  // namespace cohort
