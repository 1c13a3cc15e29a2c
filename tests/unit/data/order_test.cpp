#include "cohort/data/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cohort/core/error.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

using test::set_info;

SampleSetInfo bytes_set(std::int64_t samples, std::int64_t chunk) {
    return set_info({1, 2, 2}, SampleType::kU8, samples, chunk);
}

std::vector<std::int64_t> whole_epoch(const EpochOrder& order) {
    std::vector<std::int64_t> result;
    for (std::int64_t window = 0; window < order.windows(); ++window) {
        EXPECT_EQ(order.window_begin(window), static_cast<std::int64_t>(result.size()));
        const std::vector<std::int64_t> part = order.window_samples(window);
        result.insert(result.end(), part.begin(), part.end());
    }
    EXPECT_EQ(order.window_begin(order.windows()), static_cast<std::int64_t>(result.size()));
    return result;
}

TEST(EpochOrder, IsAPermutationForAnySizes) {
    for (const std::int64_t samples : {1, 2, 7, 64, 65, 997}) {
        for (const std::int64_t chunk : {1, 3, 64, 1000}) {
            for (const std::int64_t window : {0, 1, 2, 5, 1000}) {
                for (const bool shuffle : {true, false}) {
                    const EpochOrder order(bytes_set(samples, chunk),
                                           {.seed = 5, .shuffle = shuffle, .window_chunks = window},
                                           3);
                    std::vector<std::int64_t> ids = whole_epoch(order);
                    if (shuffle) {
                        std::sort(ids.begin(), ids.end());
                    }
                    std::vector<std::int64_t> expected(static_cast<std::size_t>(samples));
                    std::iota(expected.begin(), expected.end(), 0);
                    ASSERT_EQ(ids, expected) << samples << " " << chunk << " " << window;
                }
            }
        }
    }
}

TEST(EpochOrder, WindowsHoldWholeChunksOfNearlyEqualNumber) {
    const EpochOrder order(bytes_set(1000, 10), {.seed = 1, .window_chunks = 33}, 0);
    ASSERT_EQ(order.windows(), 4);  // 100 chunks, at most 33 each
    for (std::int64_t window = 0; window < 4; ++window) {
        EXPECT_EQ(order.window_chunks(window).size(), 25U);
        std::set<std::int64_t> allowed(order.window_chunks(window).begin(),
                                       order.window_chunks(window).end());
        for (const std::int64_t id : order.window_samples(window)) {
            EXPECT_TRUE(allowed.contains(id / 10));
        }
    }
    for (std::int64_t position = 0; position < 1000; ++position) {
        EXPECT_EQ(order.window_of(position), position / 250);
    }
}

TEST(EpochOrder, SeedsAndEpochsDiffer) {
    const SampleSetInfo info = bytes_set(500, 8);
    std::set<std::vector<std::int64_t>> orders;
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
        for (const std::uint32_t epoch : {0U, 1U, 2U}) {
            const OrderOptions options{.seed = seed, .window_chunks = 10};
            orders.insert(whole_epoch(EpochOrder(info, options, epoch)));
            EXPECT_EQ(whole_epoch(EpochOrder(info, options, epoch)),
                      whole_epoch(EpochOrder(info, options, epoch)));
        }
    }
    EXPECT_EQ(orders.size(), 9U);
}

TEST(EpochOrder, MixesASortedSet) {
    // Samples stored by class: 10 classes of 1000. A batch of 100 consecutive positions should
    // hold about 10 of each, even though only a tenth of the chunks is shuffled together.
    const EpochOrder order(bytes_set(10000, 10), {.seed = 9, .window_chunks = 100}, 0);
    const std::vector<std::int64_t> ids = whole_epoch(order);
    double squares = 0;
    for (std::size_t batch = 0; batch < 100; ++batch) {
        std::vector<int> counts(10);
        for (std::size_t i = 0; i < 100; ++i) {
            ++counts[static_cast<std::size_t>(ids[batch * 100 + i] / 1000)];
        }
        for (const int count : counts) {
            squares += (count - 10.0) * (count - 10.0);
        }
    }
    // Independent draws have a variance of 9 per class; chunks of ten samples of one class in a
    // window of 100 chunks add 8.
    EXPECT_LT(squares / 1000, 25);
}

TEST(EpochOrder, EveryPositionIsEquallyLikelyForASample) {
    // Where sample 0 of 60 lands, over many epochs: mean 29.5, variance (60^2 - 1) / 12.
    double sum = 0;
    double squares = 0;
    constexpr int kEpochs = 2000;
    for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
        const EpochOrder order(bytes_set(60, 5), {.seed = 4, .window_chunks = 4}, epoch);
        const std::vector<std::int64_t> ids = whole_epoch(order);
        const double place =
            static_cast<double>(std::find(ids.begin(), ids.end(), 0) - ids.begin());
        sum += place;
        squares += place * place;
    }
    const double mean = sum / kEpochs;
    EXPECT_NEAR(mean, 29.5, 4 * std::sqrt(299.9 / kEpochs));
    EXPECT_NEAR(squares / kEpochs - mean * mean, 299.9, 25);
}

TEST(EpochOrder, DefaultWindowFitsMemory) {
    const auto window = [](std::int64_t samples, std::int64_t chunk) {
        return default_window_chunks(set_info({3, 32, 32}, SampleType::kU8, samples, chunk));
    };
    EXPECT_EQ(window(20000, 100), 200);      // 59 MiB: all
    EXPECT_EQ(window(50000, 100), 109);      // 147 MiB: 32 MiB of it
    EXPECT_EQ(window(1'000'000, 50000), 1);  // a chunk is more than that
}

TEST(EpochOrder, RefusesAnEmptySet) {
    EXPECT_THROW(EpochOrder(bytes_set(0, 10), {}, 0), UsageError);
    EXPECT_THROW(EpochOrder(bytes_set(10, 0), {}, 0), UsageError);
    EXPECT_THROW(EpochOrder(bytes_set(10, 10), {.window_chunks = -1}, 0), UsageError);
}

}  // namespace
}  // namespace cohort
