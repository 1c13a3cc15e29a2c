#include "cohort/data/augment.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "cohort/core/error.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

using test::MemorySource;
using test::set_info;

float stored_value(const SampleSetInfo& info, const std::byte* raw, std::int64_t index) {
    if (info.type == SampleType::kU8) {
        return static_cast<float>(std::to_integer<int>(raw[index]));
    }
    float value = 0;
    std::memcpy(&value, raw + index * 4, sizeof(value));
    return value;
}

/// What a crop by (down, right) and perhaps a flip shows, pixel by pixel.
std::vector<float> reference(const SampleSetInfo& info, const std::byte* raw, std::int64_t down,
                             std::int64_t right, bool flip) {
    const bool image = info.sample_shape.size() == 3;
    const std::int64_t channels = image ? info.sample_shape[0] : 1;
    const std::int64_t height = image ? info.sample_shape[1] : 1;
    const std::int64_t width = image ? info.sample_shape[2] : info.sample_shape[0];
    std::vector<float> out;
    for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t y = 0; y < height; ++y) {
            for (std::int64_t x = 0; x < width; ++x) {
                const std::int64_t row = y + down;
                const std::int64_t column = (flip ? width - 1 - x : x) + right;
                const bool inside = row >= 0 && row < height && column >= 0 && column < width;
                const auto index = static_cast<std::size_t>(c);
                const float inverse = 1 / info.std[index];
                out.push_back(inside
                                  ? (stored_value(info, raw, (c * height + row) * width + column) -
                                     info.mean[index]) *
                                        inverse
                                  : 0.0F);
            }
        }
    }
    return out;
}

std::vector<float> apply(const SampleTransform& transform, const MemorySource& source,
                         std::int64_t id, std::uint32_t epoch) {
    std::vector<float> out(static_cast<std::size_t>(source.info().sample_elements()), -77.0F);
    transform.apply(source.sample(id), id, epoch, out.data());
    return out;
}

TEST(SampleTransform, NormalisesEveryShapeAndType) {
    for (const SampleType type : {SampleType::kU8, SampleType::kF32}) {
        for (const std::vector<std::int64_t>& shape :
             std::vector<std::vector<std::int64_t>>{{3, 32, 32}, {1, 28, 28}, {2, 5, 7}, {37}}) {
            const MemorySource source(set_info(shape, type, 4, 4));
            const SampleTransform transform(source.info(), {});
            for (std::int64_t id = 0; id < 4; ++id) {
                EXPECT_EQ(apply(transform, source, id, 0),
                          reference(source.info(), source.sample(id), 0, 0, false));
            }
        }
    }
}

TEST(SampleTransform, FeaturesMayHaveTheirOwnStatistics) {
    SampleSetInfo info = set_info({3}, SampleType::kF32, 2, 2);
    info.mean = {1, 2, 3};
    info.std = {1, 2, 4};
    const MemorySource source(info);
    const std::vector<float> out = apply(SampleTransform(info, {}), source, 1, 0);
    for (std::size_t f = 0; f < 3; ++f) {
        const float raw = stored_value(info, source.sample(1), static_cast<std::int64_t>(f));
        EXPECT_EQ(out[f], (raw - info.mean[f]) / info.std[f]);
    }
}

TEST(SampleTransform, IsOneOfTheCropsAndMirrorsAndReachesAll) {
    for (const SampleType type : {SampleType::kU8, SampleType::kF32}) {
        const MemorySource source(set_info({2, 9, 7}, type, 1, 1));
        const SampleTransform transform(source.info(), {.pad = 2, .flip = true, .seed = 8});
        std::map<std::vector<float>, int> seen;
        for (std::int64_t down = -2; down <= 2; ++down) {
            for (std::int64_t right = -2; right <= 2; ++right) {
                for (const bool flip : {false, true}) {
                    seen[reference(source.info(), source.sample(0), down, right, flip)] = 0;
                }
            }
        }
        ASSERT_EQ(seen.size(), 50U);
        for (std::uint32_t epoch = 0; epoch < 2000; ++epoch) {
            const auto found = seen.find(apply(transform, source, 0, epoch));
            ASSERT_NE(found, seen.end()) << "epoch " << epoch;
            ++found->second;
        }
        for (const auto& [image, times] : seen) {
            EXPECT_GT(times, 10);  // 40 on average
            EXPECT_LT(times, 80);
        }
    }
}

TEST(SampleTransform, PadAsLargeAsTheImage) {
    const MemorySource source(set_info({1, 4, 4}, SampleType::kU8, 1, 1));
    const SampleTransform transform(source.info(), {.pad = 4});
    bool blank = false;
    for (std::uint32_t epoch = 0; epoch < 200; ++epoch) {
        const std::vector<float> out = apply(transform, source, 0, epoch);
        blank = blank || out == std::vector<float>(16, 0.0F);
    }
    EXPECT_TRUE(blank);
}

TEST(SampleTransform, DependsOnSeedSampleAndEpochAlone) {
    const MemorySource source(set_info({1, 16, 16}, SampleType::kU8, 1, 1));
    const SampleTransform one(source.info(), {.pad = 4, .flip = true, .seed = 1});
    const SampleTransform same(source.info(), {.pad = 4, .flip = true, .seed = 1});
    const SampleTransform other(source.info(), {.pad = 4, .flip = true, .seed = 2});
    std::set<std::vector<float>> by_id;
    int differs = 0;
    for (std::int64_t id = 0; id < 50; ++id) {
        std::vector<float> a(256);
        std::vector<float> b(256);
        one.apply(source.sample(0), id, 7, a.data());
        same.apply(source.sample(0), id, 7, b.data());
        EXPECT_EQ(a, b);
        by_id.insert(a);
        other.apply(source.sample(0), id, 7, b.data());
        differs += a != b;
    }
    EXPECT_GT(by_id.size(), 25U);  // 50 draws of 162 places
    EXPECT_GT(differs, 40);
}

TEST(SampleTransform, RefusesWhatDoesNotFit) {
    const SampleSetInfo good = set_info({3, 8, 6}, SampleType::kU8, 1, 1);
    EXPECT_THROW(SampleTransform(good, {.pad = 7}), UsageError);
    EXPECT_THROW(SampleTransform(good, {.pad = -1}), UsageError);
    const SampleSetInfo vector = set_info({8}, SampleType::kU8, 1, 1);
    EXPECT_THROW(SampleTransform(vector, {.flip = true}), UsageError);
    EXPECT_THROW(SampleTransform(vector, {.pad = 1}), UsageError);
    EXPECT_THROW(SampleTransform(set_info({8, 8}, SampleType::kU8, 1, 1), {}), ShapeError);
    EXPECT_THROW(SampleTransform(set_info({0, 8, 8}, SampleType::kU8, 1, 1), {}), ShapeError);
    SampleSetInfo bad = good;
    bad.mean.pop_back();
    EXPECT_THROW(SampleTransform(bad, {}), ShapeError);
    bad = good;
    bad.std[1] = 0;
    EXPECT_THROW(SampleTransform(bad, {}), ShapeError);
    bad.std[1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(SampleTransform(bad, {}), ShapeError);
}

}  // namespace
}  // namespace cohort
