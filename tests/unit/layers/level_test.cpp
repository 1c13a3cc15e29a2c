// Loops over lanes that are compiled for several sets of instructions: the same bits from all that
// this processor has, and poolings against the plain definition.
#include "layers/cpu/level/level_loops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "cohort/core/rng.hpp"
#include "core/bf16.hpp"
#include "layers/cpu/pool_axis.hpp"

namespace cohort {
namespace {

template <class Element>
struct Level {
    std::string name;
    const ElementLoops<Element>& loops;
};

/// Those that this processor can execute, the narrowest first.
template <class Element>
std::vector<Level<Element>> levels() {
    std::vector<Level<Element>> all{{"sse", sse_loops().of<Element>()}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) {
        all.push_back({"avx2", avx2_loops().of<Element>()});
    }
    if (__builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
        __builtin_cpu_supports("avx512vl") != 0) {
        all.push_back({"avx512", avx512_loops().of<Element>()});
    }
#endif
    return all;
}

template <class Element>
Element element(float value) {
    if constexpr (std::is_same_v<Element, float>) {
        return value;
    } else {
        return nearest_bf16(value);
    }
}
float number(float value) {
    return value;
}
float number(std::uint16_t value) {
    return float_of_bf16(value);
}

/// Normal numbers, some of them equal, and now and then NaN or an infinity.
template <class Element>
std::vector<Element> draw(std::int64_t count, std::uint64_t seed, bool wild) {
    Rng rng(seed, RngPurpose::kTest);
    std::vector<Element> drawn;
    for (std::int64_t i = 0; i < count; ++i) {
        float value = std::round(4 * rng.next_normal()) / 4;
        if (wild && rng.next_below(40) == 0) {
            const float limits[] = {std::numeric_limits<float>::quiet_NaN(),
                                    std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity()};
            value = limits[rng.next_below(3)];
        }
        drawn.push_back(element<Element>(value));
    }
    return drawn;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// What all levels make of one task.
template <class Element, class Tap>
struct Pooled {
    std::vector<Element> most;
    std::vector<Tap> taps;
    std::vector<Element> most_gradient;
    std::vector<Element> mean;
    std::vector<Element> mean_gradient;
};

template <class Element, class Tap>
Pooled<Element, Tap> pooled(const ElementLoops<Element>& loops, const PoolTask& task,
                            const std::vector<Element>& x) {
    const auto outputs = static_cast<std::size_t>(task.planes * task.lanes * task.rows.outputs *
                                                  task.columns.outputs);
    Pooled<Element, Tap> all{std::vector<Element>(outputs), std::vector<Tap>(outputs),
                             std::vector<Element>(x.size()), std::vector<Element>(outputs),
                             std::vector<Element>(x.size())};
    const MaxPoolLoops<Element, Tap>& max_pool = loops.template max_pool_with<Tap>();
    max_pool.forward(task, x.data(), all.most.data(), all.taps.data());
    max_pool.backward(task, all.most.data(), all.taps.data(), all.most_gradient.data());
    loops.average_pool.forward(task, x.data(), all.mean.data());
    loops.average_pool.backward(task, all.mean.data(), all.mean_gradient.data());
    return all;
}

/// Calls f(number of the output, cells within the image, f(number of the input, tap)) for all
/// windows and lanes.
template <class F>
void for_windows(const PoolTask& task, F&& f) {
    const std::int64_t outputs = task.rows.outputs * task.columns.outputs;
    for (std::int64_t plane = 0; plane < task.planes; ++plane) {
        for (std::int64_t o = 0; o < outputs; ++o) {
            const PoolTaps& rows = task.rows.taps[o / task.columns.outputs];
            const PoolTaps& columns = task.columns.taps[o % task.columns.outputs];
            const auto for_taps = [&](std::int64_t lane, auto&& each) {
                for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                    for (std::int64_t c = columns.begin; c < columns.end; ++c) {
                        const std::int64_t i =
                            (plane * task.rows.inputs + rows.cell + r * task.rows.dilation) *
                                task.columns.inputs +
                            columns.cell + c * task.columns.dilation;
                        each(static_cast<std::size_t>(i * task.lanes + lane),
                             r * task.columns.kernel + c);
                    }
                }
            };
            const std::int64_t cells =
                task.counts_padding ? task.rows.kernel * task.columns.kernel
                                    : (rows.end - rows.begin) * (columns.end - columns.begin);
            for (std::int64_t lane = 0; lane < task.lanes; ++lane) {
                f(static_cast<std::size_t>((plane * outputs + o) * task.lanes + lane), cells,
                  [&](auto&& each) { for_taps(lane, each); });
            }
        }
    }
}

/// y, taps (the first of the largest) and gradients of finite numbers by their definition. What is
/// drawn are multiples of a quarter, whose sums are exact.
template <class Element, class Tap>
void expect_defined(const PoolTask& task, const std::vector<Element>& x,
                    const Pooled<Element, Tap>& found) {
    std::vector<double> most_gradient(x.size());
    std::vector<double> mean_gradient(x.size());
    for_windows(task, [&](std::size_t at, std::int64_t cells, auto&& for_taps) {
        float most = -std::numeric_limits<float>::infinity();
        float sum = 0;
        std::int64_t which = 0;
        std::size_t where = 0;
        for_taps([&](std::size_t i, std::int64_t tap) {
            const float value = number(x[i]);
            sum += value;
            if (value > most) {
                most = value;
                which = tap;
                where = i;
            }
        });
        ASSERT_EQ(number(found.most[at]), most) << at;
        ASSERT_EQ(static_cast<std::int64_t>(found.taps[at]), which) << at;
        ASSERT_EQ(found.mean[at], element<Element>(sum / static_cast<float>(cells))) << at;
        most_gradient[where] += static_cast<double>(most);
        for_taps([&](std::size_t i, std::int64_t /*tap*/) {
            mean_gradient[i] +=
                static_cast<double>(number(found.mean[at])) / static_cast<double>(cells);
        });
    });
    const double rounding = sizeof(Element) == 2 ? 1.0 / 256 : 1e-6;
    const auto near = [&](double value) { return rounding * (1 + std::abs(value)); };
    for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(number(found.most_gradient[i])), most_gradient[i],
                    near(most_gradient[i]))
            << i;
        ASSERT_NEAR(static_cast<double>(number(found.mean_gradient[i])), mean_gradient[i],
                    near(mean_gradient[i]))
            << i;
    }
}

template <class Element, class Tap>
void check_pooling(std::int64_t lanes, bool counts_padding) {
    const PoolAxis rows({.kernel = 3, .stride = 2, .before = 1, .after = 1}, 9, 5);
    const PoolAxis columns({.kernel = 2, .stride = 1, .dilation = 2, .before = 1, .after = 1}, 6,
                           6);
    const PoolTask task{.rows = rows.line(),
                        .columns = columns.line(),
                        .planes = 2,
                        .lanes = lanes,
                        .counts_padding = counts_padding};
    const auto x = draw<Element>(2 * 9 * 6 * lanes, static_cast<std::uint64_t>(lanes), false);
    const auto first = pooled<Element, Tap>(sse_loops().of<Element>(), task, x);
    expect_defined(task, x, first);
    for (const Level<Element>& level : levels<Element>()) {
        SCOPED_TRACE(level.name);
        const auto again = pooled<Element, Tap>(level.loops, task, x);
        EXPECT_TRUE(same_bits(again.most, first.most));
        EXPECT_TRUE(same_bits(again.taps, first.taps));
        EXPECT_TRUE(same_bits(again.most_gradient, first.most_gradient));
        EXPECT_TRUE(same_bits(again.mean, first.mean));
        EXPECT_TRUE(same_bits(again.mean_gradient, first.mean_gradient));
    }
}

TEST(Levels, PoolAlike) {
    for (const std::int64_t lanes : {1, 4, 8, 12, 16, 24}) {
        SCOPED_TRACE(lanes);
        for (const bool counts_padding : {false, true}) {
            check_pooling<float, std::uint8_t>(lanes, counts_padding);
            check_pooling<float, std::uint32_t>(lanes, counts_padding);
            check_pooling<std::uint16_t, std::uint8_t>(lanes, counts_padding);
            check_pooling<std::uint16_t, std::uint32_t>(lanes, counts_padding);
        }
    }
}

/// Outputs alone: a gradient is sent to whichever tap had the NaN, and NaN are not all of the same
/// bits.
TEST(Levels, PoolNaNAndInfinitiesByTheDefinition) {
    for (const std::int64_t lanes : {1, 8, 16}) {
        const PoolAxis axis({.kernel = 3, .stride = 1, .before = 1, .after = 1}, 8, 8);
        const PoolTask task{
            .rows = axis.line(), .columns = axis.line(), .planes = 2, .lanes = lanes};
        const auto x = draw<float>(2 * 64 * lanes, 3, true);
        for (const Level<float>& level : levels<float>()) {
            SCOPED_TRACE(level.name);
            const auto found = pooled<float, std::uint8_t>(level.loops, task, x);
            for_windows(task, [&](std::size_t at, std::int64_t /*cells*/, auto&& for_taps) {
                float most = -std::numeric_limits<float>::infinity();
                bool nan = false;
                for_taps([&](std::size_t i, std::int64_t /*tap*/) {
                    nan = nan || std::isnan(x[i]);
                    most = std::max(most, x[i]);
                });
                if (nan) {
                    EXPECT_TRUE(std::isnan(found.most[at])) << at;
                } else {
                    EXPECT_EQ(found.most[at], most) << at;
                }
            });
        }
    }
}

/// The gradient of a corner goes to a pixel, not to the padding beside it.
TEST(Levels, TakeTheFirstOfAWindowOfMinusInfinities) {
    const PoolAxis axis({.kernel = 3, .stride = 2, .before = 1, .after = 1}, 4, 2);
    const PoolTask task{.rows = axis.line(), .columns = axis.line(), .planes = 1, .lanes = 16};
    const std::vector<float> x(16 * 16, -std::numeric_limits<float>::infinity());
    for (const Level<float>& level : levels<float>()) {
        SCOPED_TRACE(level.name);
        const auto found = pooled<float, std::uint8_t>(level.loops, task, x);
        for (std::size_t lane = 0; lane < 16; ++lane) {
            EXPECT_EQ(found.taps[lane], 4) << "row 1, column 1 of the window at the corner";
            EXPECT_EQ(found.taps[16 + lane], 3) << "row 1, column 0";
            EXPECT_EQ(found.taps[3 * 16 + lane], 0);
        }
    }
}

TEST(Levels, FindTheTapOfAWindowOfMoreThan65536) {
    constexpr std::int64_t kTaps = 70000;
    for (const std::int64_t lanes : {1, 8, 16}) {
        const PoolAxis row({.kernel = 1}, 1, 1);
        const PoolAxis columns({.kernel = kTaps}, kTaps, 1);
        const PoolTask task{
            .rows = row.line(), .columns = columns.line(), .planes = 1, .lanes = lanes};
        std::vector<float> x(static_cast<std::size_t>(kTaps * lanes));
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
            x[static_cast<std::size_t>((69000 + lane) * lanes + lane)] = 1;
        }
        for (const Level<float>& level : levels<float>()) {
            SCOPED_TRACE(level.name);
            const auto found = pooled<float, std::uint32_t>(level.loops, task, x);
            EXPECT_TRUE(same_bits(found.most_gradient, x)) << "one gradient of 1 in every lane";
            for (std::int64_t lane = 0; lane < lanes; ++lane) {
                EXPECT_EQ(found.taps[static_cast<std::size_t>(lane)], 69000 + lane);
            }
        }
    }
}

template <class Element>
std::vector<Element> normalised(const ElementLoops<Element>& loops, const ChannelView& view,
                                ReluMask mask, std::vector<double>& sums) {
    const std::int64_t channels = view.groups * view.lanes;
    const std::int64_t count = view.samples * view.pixels * channels;
    const auto x = draw<Element>(count, 1, false);
    const auto added = draw<Element>(count, 2, false);
    auto gradient = draw<Element>(count, 3, false);
    const auto a = draw<float>(channels, 4, false);
    const auto b = draw<float>(channels, 5, false);
    const auto c = draw<float>(channels, 6, false);
    const auto of_channels = static_cast<std::size_t>(channels);
    sums.assign(4 * of_channels, 0.0);
    std::vector<Element> y(x.size());
    std::vector<Element> gradient_x(x.size());
    loops.batch_norm.statistics(view, x.data(), a.data(), sums.data(), sums.data() + of_channels);
    loops.batch_norm.apply(view, x.data(), a.data(), b.data(),
                           mask == ReluMask::kFromOutput ? added.data() : nullptr,
                           mask != ReluMask::kNone, y.data());
    loops.batch_norm.reduce(view, {.mean = c.data(), .scale = a.data(), .offset = b.data()}, mask,
                            x.data(), y.data(), gradient.data(), sums.data() + 2 * of_channels,
                            sums.data() + 3 * of_channels);
    loops.batch_norm.input_gradient(view, x.data(), gradient.data(), c.data(), a.data(), b.data(),
                                    a.data(), gradient_x.data());
    y.insert(y.end(), gradient.begin(), gradient.end());
    y.insert(y.end(), gradient_x.begin(), gradient_x.end());
    return y;
}

template <class Element>
void check_batch_norm() {
    for (const ChannelView view :
         {ChannelView{3, 2, 301, 16}, ChannelView{2, 3, 49, 8}, ChannelView{2, 5, 49, 1},
          ChannelView{4, 1, 1, 37}, ChannelView{4, 1, 1, 24}, ChannelView{3, 2, 7, 12}}) {
        for (const ReluMask mask : {ReluMask::kNone, ReluMask::kFromInput, ReluMask::kFromOutput}) {
            SCOPED_TRACE(view.lanes);
            std::vector<double> first_sums;
            const auto first = normalised(sse_loops().of<Element>(), view, mask, first_sums);
            for (const Level<Element>& level : levels<Element>()) {
                std::vector<double> sums;
                EXPECT_TRUE(same_bits(normalised(level.loops, view, mask, sums), first))
                    << level.name;
                EXPECT_TRUE(same_bits(sums, first_sums)) << level.name;
            }
        }
    }
}

TEST(Levels, NormaliseAlike) {
    check_batch_norm<float>();
    check_batch_norm<std::uint16_t>();
}

}  // namespace
}  // namespace cohort
