// Index arithmetic and numerics of the CUDA kernels, on the CPU against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "layers/cuda/rules/activation_rules.hpp"
#include "layers/cuda/rules/channel_math.hpp"
#include "layers/cuda/rules/layouts.hpp"

namespace cohort::cuda {
namespace {

std::vector<WeightForm> forms() {
    return {{.outer = 1, .channels = 1, .inner = 1, .padded_channels = 1, .channels_last = true},
            {.outer = 5, .channels = 3, .inner = 9, .padded_channels = 8, .channels_last = true},
            {.outer = 4, .channels = 6, .inner = 1, .padded_channels = 6, .channels_last = true},
            {.outer = 3, .channels = 1, .inner = 25, .padded_channels = 4, .channels_last = true},
            {.outer = 7, .channels = 2, .inner = 3, .padded_channels = 2, .channels_last = false}};
}

TEST(WeightForm, EveryElementGoesToItsPlaceAndBack) {
    for (const WeightForm& form : forms()) {
        std::vector<std::int64_t> copy(static_cast<std::size_t>(form.elements()), -1);
        for (std::int64_t o = 0; o < form.outer; ++o) {
            for (std::int64_t c = 0; c < form.channels; ++c) {
                for (std::int64_t i = 0; i < form.inner; ++i) {
                    const std::int64_t flat = (o * form.channels + c) * form.inner + i;
                    const std::int64_t place =
                        form.channels_last ? (o * form.inner + i) * form.padded_channels + c : flat;
                    EXPECT_EQ(weight_place(form, flat), place);
                    copy.at(static_cast<std::size_t>(place)) = flat;
                }
            }
        }
        for (std::size_t place = 0; place < copy.size(); ++place) {
            EXPECT_EQ(weight_source(form, static_cast<std::int64_t>(place)), copy[place]);
        }
    }
}

TEST(ImageOrder, EveryElementGoesToItsPlaceAndBack) {
    constexpr std::int64_t kSamples = 3;
    for (const ImageOrder& order : {ImageOrder{3, 4, 6}, ImageOrder{3, 8, 5}, ImageOrder{1, 4, 7},
                                    ImageOrder{16, 16, 2}, ImageOrder{5, 5, 1}}) {
        std::vector<std::int64_t> stored(
            static_cast<std::size_t>(kSamples * order.pixels * order.stored), -1);
        for (std::int64_t n = 0; n < kSamples; ++n) {
            for (std::int64_t c = 0; c < order.channels; ++c) {
                for (std::int64_t p = 0; p < order.pixels; ++p) {
                    const std::int64_t flat = (n * order.channels + c) * order.pixels + p;
                    const std::int64_t place = (n * order.pixels + p) * order.stored + c;
                    EXPECT_EQ(image_place(order, flat), place);
                    stored.at(static_cast<std::size_t>(place)) = flat;
                }
            }
        }
        for (std::size_t place = 0; place < stored.size(); ++place) {
            EXPECT_EQ(image_source(order, static_cast<std::int64_t>(place)), stored[place]);
        }
    }
}

TEST(EntryOfBlock, FindsTheEntryThatABlockBelongsTo) {
    const std::vector<std::int64_t> first{0, 1, 4, 5, 11};
    const std::vector<int> expected{0, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4};
    for (std::size_t block = 0; block < expected.size(); ++block) {
        EXPECT_EQ(entry_of_block(static_cast<int>(first.size()), static_cast<std::int64_t>(block),
                                 [&](int i) { return first[static_cast<std::size_t>(i)]; }),
                  expected[block]);
    }
    EXPECT_EQ(entry_of_block(1, 3, [](int) { return std::int64_t{0}; }), 0);
}

TEST(NanBits, KnowsNanOfEveryType) {
    EXPECT_TRUE(nan_bits(0xFFFFFFFFU, 8, 23));
    EXPECT_TRUE(nan_bits(0x7FC00000U, 8, 23));
    EXPECT_FALSE(nan_bits(0x7F800000U, 8, 23));  // infinity
    EXPECT_FALSE(nan_bits(0x3F800000U, 8, 23));
    EXPECT_TRUE(nan_bits(0xFFFFU, 8, 7));
    EXPECT_FALSE(nan_bits(0x7F80U, 8, 7));
    EXPECT_TRUE(nan_bits(0x7E00U, 5, 10));
    EXPECT_FALSE(nan_bits(0x7C00U, 5, 10));
    EXPECT_FALSE(nan_bits(0U, 5, 10));
}

TEST(ChannelTiles, CoverEveryRowAndChannelOnce) {
    for (const std::int64_t channels : {1, 3, 4, 16, 24, 64, 100, 2048}) {
        for (const std::int64_t rows : {1, 7, 31, 256, 5000}) {
            for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
                const ChannelTiles tiles = channel_tiles(rows, channels, type, 4);
                EXPECT_EQ(tiles.groups * tiles.vector, channels);
                EXPECT_EQ(tiles.rows() * tiles.lanes, kTileThreads);
                EXPECT_GE(tiles.blocks_x * static_cast<std::int64_t>(tiles.lanes), tiles.groups);
                EXPECT_GE(tiles.blocks_y, 1U);
                const RowShares shares(rows, tiles.rows(), tiles.blocks_y);
                std::int64_t sum = 0;
                for (std::int64_t block = 0; block < tiles.blocks_y; ++block) {
                    std::int64_t own = 0;
                    for (std::int64_t row = 0; row < rows; ++row) {
                        own += row / tiles.rows() % tiles.blocks_y == block ? 1 : 0;
                    }
                    EXPECT_EQ(shares[block], own);
                    sum += own;
                }
                EXPECT_EQ(sum, rows);
            }
        }
    }
}

TEST(ChannelTiles, AThreadTakesSixteenBytesWhereTheyDivideTheRow) {
    EXPECT_EQ(channel_tiles(100, 64, ElementType::kF32, 8).vector, 4);
    EXPECT_EQ(channel_tiles(100, 64, ElementType::kF16, 8).vector, 8);
    EXPECT_EQ(channel_tiles(100, 12, ElementType::kBf16, 8).vector, 1);
    EXPECT_EQ(channel_tiles(100, 64, ElementType::kF32, 8, false).vector, 1);
    EXPECT_EQ(channel_tiles(100, 64, ElementType::kF32, 8).lanes, 16);
    EXPECT_EQ(channel_tiles(100, 64, ElementType::kF32, 8, true, 8).lanes, 8);
}

Moments<float> moments_of(const std::vector<float>& values) {
    float sum = 0;
    float squares = 0;
    for (const float value : values) {
        const float distance = value - values.front();
        sum += distance;
        squares += distance * distance;
    }
    return moments_of_sums(static_cast<float>(values.size()), values.empty() ? 0 : values.front(),
                           sum, squares);
}

TEST(Moments, MergedSetsHaveTheMomentsOfAllNumbersThoughTheMeanIsLarge) {
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = 10000.0F + std::sin(static_cast<float>(i));
    }
    const double count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const float value : values) {
        squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    }
    Moments<float> all;
    for (std::size_t begin = 0; begin < values.size(); begin += 37) {
        const std::size_t end = std::min(begin + 37, values.size());
        const auto from = values.begin();
        all = merge(all, moments_of({from + static_cast<std::ptrdiff_t>(begin),
                                     from + static_cast<std::ptrdiff_t>(end)}));
    }
    EXPECT_EQ(all.count, 1000.0F);
    EXPECT_NEAR(all.mean, mean, 2e-3);
    EXPECT_NEAR(all.squares / squares, 1, 1e-3);
}

TEST(Moments, AnEmptySetChangesNothing) {
    const Moments<double> some{3, 2, 1};
    EXPECT_EQ(merge(some, {}).mean, 2);
    EXPECT_EQ(merge({}, some).squares, 1);
    EXPECT_EQ(merge(Moments<double>{}, {}).count, 0);
}

TEST(Moments, NanShows) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Moments<float> bad = moments_of({1, nan, 2});
    EXPECT_TRUE(std::isnan(bad.mean));
    EXPECT_TRUE(std::isnan(bad.squares));
}

TEST(Relu, KeepsNan) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(relu_of(-2), 0);
    EXPECT_EQ(relu_of(3), 3);
    EXPECT_TRUE(std::isnan(relu_of(nan)));
    EXPECT_EQ(relu_slope(0, 5), 0);
    EXPECT_EQ(relu_slope(1, 5), 5);
    EXPECT_EQ(relu_slope(nan, 5), 5);
}

TEST(PoolWindows, CellsAndWindowsSayTheSame) {
    for (const std::int64_t kernel : {1, 2, 3, 5}) {
        for (const std::int64_t stride : {1, 2, 3, 7}) {
            for (std::int64_t padding = 0; padding < kernel; ++padding) {
                for (std::int64_t extent = kernel; extent < 12; ++extent) {
                    const WindowAxis axis{
                        .kernel = kernel, .stride = stride, .before = padding, .after = kernel / 2};
                    const std::int64_t windows =
                        (extent + padding + kernel / 2 - kernel) / stride + 1;
                    EXPECT_EQ(axis.outputs(extent), windows);
                    for (std::int64_t w = 0; w < windows; ++w) {
                        const PoolRange cells = window_cells(w, axis, extent);
                        EXPECT_LT(cells.first, cells.last) << "an empty window";
                        for (std::int64_t cell = 0; cell < extent; ++cell) {
                            const std::int64_t within = cell - (w * stride - padding);
                            const bool covered = within >= 0 && within < kernel;
                            EXPECT_EQ(cell >= cells.first && cell < cells.last, covered);
                            const PoolRange back = cell_windows(cell, axis, windows);
                            EXPECT_EQ(w >= back.first && w < back.last, covered);
                        }
                    }
                }
            }
        }
    }
}

TEST(PoolWindows, APlaceHasRoomForEveryCell) {
    EXPECT_EQ(place_bytes(16 * 16), 1U);
    EXPECT_EQ(place_bytes(16 * 17), 2U);
    EXPECT_EQ(place_bytes(256 * 256), 2U);
    EXPECT_EQ(place_bytes(256 * 257), 0U);
}

}  // namespace
}  // namespace cohort::cuda
