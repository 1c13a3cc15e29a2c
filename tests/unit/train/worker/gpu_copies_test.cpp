// How the gradient of a step gets from a device's memory to the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "support/train/lazy_device.hpp"
#include "train/worker/servers/worker_device.hpp"

namespace cohort {
namespace {

using testing::Each;
using Range = GradientCopies::Range;

struct Copies : testing::Test {
    /// Queues a kernel that makes a range of the gradient, and announces the range.
    void announce(std::int64_t begin, std::int64_t end, float value) {
        kernels.queue(
            [=, this] { std::fill(gradient.begin() + begin, gradient.begin() + end, value); });
        copies.add({begin, end}, gradient);
    }
    void begin(float statistics) {
        copies.begin();
        kernels.queue([=, this] { std::ranges::fill(state, statistics); });
        copies.add_statistics(state);
    }
    [[nodiscard]] std::span<const float> on_host(const Range& range) const {
        return copies.gradients().subspan(static_cast<std::size_t>(range.begin),
                                          static_cast<std::size_t>(range.end - range.begin));
    }

    std::vector<float> gradient = std::vector<float>(96, -1);
    std::vector<float> state = std::vector<float>(5, -1);
    test::LazyDevice device;
    test::LazyStream kernels;
    GradientCopies copies{device, kernels, 96, 5};
};

TEST_F(Copies, ComeInTheOrderOfTheirAnnouncementWhenTheyAreDone) {
    begin(7);
    announce(64, 96, 1);
    announce(16, 64, 2);
    EXPECT_FALSE(copies.next(false)) << "nothing has run";
    kernels.run(3);
    EXPECT_FALSE(copies.next(false)) << "there are gradients, no copies";
    constexpr std::size_t kStatisticsAndFirst = 4;  // a wait and a copy each
    device.newest().run(kStatisticsAndFirst);
    const auto first = copies.next(false);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->begin, 64);
    EXPECT_EQ(first->end, 96);
    EXPECT_THAT(on_host(*first), Each(1.0F));
    EXPECT_THAT(copies.statistics(), Each(7.0F)) << "they are there with the first range";
    EXPECT_FALSE(copies.next(false));
    announce(0, 16, 3);
    const auto second = copies.next(true);
    const auto third = copies.next(true);
    ASSERT_TRUE(second && third);
    EXPECT_EQ(second->begin, 16);
    EXPECT_THAT(on_host(*second), Each(2.0F));
    EXPECT_EQ(third->begin, 0);
    EXPECT_THAT(on_host(*third), Each(3.0F)) << "after the kernel that makes it";
    EXPECT_FALSE(copies.next(true));
}

TEST_F(Copies, NothingOfAStepThatWasGivenUpIsHandedOut) {
    begin(1);
    announce(48, 96, 1);
    announce(0, 48, 1);
    (void)copies.next(true);
    begin(2);
    announce(32, 96, 2);
    announce(0, 32, 2);
    std::int64_t low = 96;
    while (const auto range = copies.next(true)) {
        EXPECT_EQ(range->end, low);
        EXPECT_THAT(on_host(*range), Each(2.0F)) << "old copies do not overtake new ones";
        low = range->begin;
    }
    EXPECT_EQ(low, 0);
    EXPECT_THAT(copies.statistics(), Each(2.0F));
}

TEST_F(Copies, AreWaitedForBeforeTheirMemoryGoes) {
    GradientCopies others(device, kernels, 96, 5);
    others.begin();
    others.add({0, 96}, gradient);
}

TEST(LargeCopies, ComeInPiecesFromTheEndEveryFloatOnce) {
    constexpr std::int64_t kFloats = 2 * GradientCopies::kPiece + 48;
    std::vector<float> gradient(kFloats);
    std::iota(gradient.begin(), gradient.end(), 0.0F);
    test::LazyDevice device;
    test::LazyStream kernels;
    GradientCopies copies(device, kernels, kFloats, 0);
    copies.begin();
    copies.add_statistics({});
    copies.add({0, kFloats}, gradient);
    std::int64_t low = kFloats;
    int pieces = 0;
    while (const auto range = copies.next(true)) {
        EXPECT_EQ(range->end, low);
        EXPECT_LE(range->end - range->begin, GradientCopies::kPiece);
        low = range->begin;
        ++pieces;
    }
    EXPECT_EQ(low, 0);
    EXPECT_EQ(pieces, 3);
    EXPECT_TRUE(std::ranges::equal(copies.gradients(), gradient));
}

}  // namespace
}  // namespace cohort
