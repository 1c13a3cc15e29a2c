// plan_arena: properties over random requests, and the small cases with known answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cohort/core/rng.hpp"
#include "core/tensor/arena.hpp"

namespace cohort {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t rounded(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Requests like a network's: sizes over four orders of magnitude, short and long lives, some 0.
std::vector<ArenaRequest> random_requests(std::uint64_t seed) {
    Rng rng(seed, RngPurpose::kTest);
    const std::uint32_t count = 1 + rng.next_below(60);
    const std::uint32_t steps = 1 + rng.next_below(40);
    std::vector<ArenaRequest> requests;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t first = rng.next_below(steps);
        const std::uint32_t reach = rng.next_below(4) == 0 ? steps - first : 1 + steps / 8;
        const std::uint32_t last = std::min(steps - 1, first + rng.next_below(reach));
        const std::size_t bytes = rng.next_below(10U << rng.next_below(14));
        requests.push_back({bytes, static_cast<int>(first), static_cast<int>(last)});
    }
    return requests;
}

/// Most bytes that live at one time: no plan can take less.
std::size_t least_bytes(const std::vector<ArenaRequest>& requests) {
    std::size_t least = 0;
    for (const ArenaRequest& at : requests) {
        std::size_t live = 0;
        for (const ArenaRequest& other : requests) {
            live += other.first <= at.first && at.first <= other.last ? rounded(other.bytes) : 0;
        }
        least = std::max(least, live);
    }
    return least;
}

TEST(Arena, LivesThatMeetNeverShareBytes) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const std::vector<ArenaRequest> requests = random_requests(seed);
        const ArenaPlan plan = plan_arena(requests);
        ASSERT_EQ(plan.offsets.size(), requests.size());
        for (std::size_t i = 0; i < requests.size(); ++i) {
            ASSERT_EQ(plan.offsets[i] % kAlignment, 0U);
            ASSERT_LE(plan.offsets[i] + requests[i].bytes, plan.total_bytes) << "seed " << seed;
            for (std::size_t j = 0; j < i; ++j) {
                const bool meet =
                    requests[i].first <= requests[j].last && requests[j].first <= requests[i].last;
                const bool share = plan.offsets[i] < plan.offsets[j] + requests[j].bytes &&
                                   plan.offsets[j] < plan.offsets[i] + requests[i].bytes;
                ASSERT_FALSE(meet && share && requests[i].bytes > 0 && requests[j].bytes > 0)
                    << "seed " << seed << ", requests " << j << " and " << i;
            }
        }
    }
}

TEST(Arena, TakesLittleMoreThanTheMostThatLivesAtOnce) {
    double ratio = 0;
    int plans = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const std::vector<ArenaRequest> requests = random_requests(seed);
        const std::size_t least = least_bytes(requests);
        const std::size_t total = plan_arena(requests).total_bytes;
        ASSERT_GE(total, least) << "seed " << seed;
        if (least > 0) {
            ratio += static_cast<double>(total) / static_cast<double>(least);
            ++plans;
        }
    }
    EXPECT_LE(ratio / plans, 1.2);
}

TEST(Arena, IsAFunctionOfItsRequests) {
    const std::vector<ArenaRequest> requests = random_requests(7);
    EXPECT_EQ(plan_arena(requests).offsets, plan_arena(requests).offsets);
}

TEST(Arena, PlacesSmallCasesAsExpected) {
    EXPECT_EQ(plan_arena({}).total_bytes, 0U);
    EXPECT_EQ(plan_arena({{0, 0, 9}}).total_bytes, 0U);
    EXPECT_EQ(plan_arena({{1, 0, 0}}).total_bytes, 64U);
    // Touching lives overlap: what a step writes must not lie on what it reads.
    const ArenaPlan touching = plan_arena({{64, 0, 1}, {64, 1, 2}});
    EXPECT_EQ(touching.total_bytes, 128U);
    // Separate lives share.
    const ArenaPlan separate = plan_arena({{64, 0, 1}, {64, 2, 3}});
    EXPECT_EQ(separate.offsets, (std::vector<std::size_t>{0, 0}));
    // A gap between two live blocks is used when it is large enough, and only then.
    const ArenaPlan gap = plan_arena({{256, 0, 1}, {192, 0, 9}, {128, 2, 9}, {100, 2, 9}});
    EXPECT_EQ(gap.offsets, (std::vector<std::size_t>{0, 256, 0, 128}));
    EXPECT_EQ(gap.total_bytes, 448U);
}

}  // namespace
}  // namespace cohort
