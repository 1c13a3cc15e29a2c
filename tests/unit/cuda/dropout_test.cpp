// Which numbers the GPU's dropout draws, computed on the host: those of the CPU's sequential draws,
// whatever the order in memory.
#include "layers/cuda/rules/dropout_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cohort {
namespace {

using cuda::DropoutShape;

TEST(RngBlock, IsTheGeneratorsBlock) {
    const std::uint64_t seed = 0x123456789abcdefULL;
    const std::uint64_t stream = (7ULL << 40) + 5;
    const Rng rng(seed, RngPurpose::kDropout, stream, 77);
    const auto key = rng_key(seed, RngPurpose::kDropout);
    for (const std::uint32_t index : {0U, 1U, 1000U, 0xffffffffU}) {
        EXPECT_EQ(rng_block(key, stream, 77, index), rng.block(index));
    }
}

/// The mask of one sample as the GPU's threads draw it: by place in memory, 2 where nothing was.
std::vector<int> mask_of(const DropoutShape& shape, std::uint64_t seed, std::int64_t sample,
                         std::uint32_t layer, std::uint32_t epoch, float probability) {
    std::vector<int> mask(static_cast<std::size_t>(shape.pixels * shape.block), 2);
    const auto key = rng_key(seed, RngPurpose::kDropout);
    const auto draws = static_cast<std::uint32_t>(shape.draws());
    for (std::uint32_t t = 0; t < draws; ++t) {
        const std::uint32_t draw = cuda::dropout_draw(shape, t);
        const auto words = cuda::dropout_words(key, sample, layer, epoch, draw);
        for (std::uint32_t j = 0; j < 4 && 4 * draw + j < shape.elements(); ++j) {
            const auto at = static_cast<std::size_t>(cuda::dropout_place(shape, 4 * draw + j));
            EXPECT_EQ(mask.at(at), 2) << "drawn twice";
            mask[at] = cuda::dropout_keeps(words[j], probability) ? 1 : 0;
        }
    }
    return mask;
}

class DropoutMask : public testing::TestWithParam<DropoutShape> {};

TEST_P(DropoutMask, IsTheCpusWhateverTheOrderInMemory) {
    const DropoutShape shape = GetParam();
    constexpr float kProbability = 0.4F;
    const std::vector<int> mask = mask_of(shape, 11, 1234567, 3, 9, kProbability);
    Rng rng(11, RngPurpose::kDropout, 1234567, (3U << 16U) ^ 9U);
    for (std::int64_t c = 0; c < shape.channels; ++c) {
        for (std::int64_t p = 0; p < shape.pixels; ++p) {
            const int kept = rng.next_uniform() >= kProbability ? 1 : 0;
            ASSERT_EQ(mask[static_cast<std::size_t>(p * shape.block + c)], kept)
                << "channel " << c << ", pixel " << p;
        }
    }
    for (std::int64_t p = 0; p < shape.pixels; ++p) {  // padding channels draw nothing
        for (std::int64_t c = shape.channels; c < shape.block; ++c) {
            ASSERT_EQ(mask[static_cast<std::size_t>(p * shape.block + c)], 2);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Orders, DropoutMask,
                         testing::Values(DropoutShape{1, 1, 1},      // one number
                                         DropoutShape{101, 1, 101},  // [F], a rest of one
                                         DropoutShape{64, 1, 64},    // [F]
                                         DropoutShape{5, 16, 5},     // blocks within channels
                                         DropoutShape{7, 9, 7},      // blocks across channels
                                         DropoutShape{3, 16, 8},     // padding channels
                                         DropoutShape{3, 5, 4}));

TEST(DropoutDraw, NeighbouringThreadsTakeNeighbouringChannels) {
    const DropoutShape shape{8, 16, 8};
    for (std::uint32_t t = 0; t < 7; ++t) {
        const std::int64_t here = cuda::dropout_place(shape, 4 * cuda::dropout_draw(shape, t));
        const std::int64_t next = cuda::dropout_place(shape, 4 * cuda::dropout_draw(shape, t + 1));
        EXPECT_EQ(next, here + 1);
    }
}

}  // namespace
}  // namespace cohort
