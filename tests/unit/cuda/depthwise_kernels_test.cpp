// Convolutions of each channel alone: the CUDA kernels themselves, run on the CPU thread by thread
// (support/gpu/cuda_on_cpu.hpp), against plain loops in double precision.
#include "layers/cuda/kernels/depthwise_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/gpu/kernel_tensor.hpp"

namespace cohort::cuda {
namespace {

DepthwiseAxis axis(int image, int stride, int padding, int dilation) {
    const int reach = dilation * (kDepthwiseKernel - 1) + 1;
    return {.image = image,
            .result = (image + 2 * padding - reach) / stride + 1,
            .stride = stride,
            .padding = padding,
            .dilation = dilation};
}

struct Case {
    std::string name;
    std::int64_t channels;
    DepthwiseAxis height;
    DepthwiseAxis width;
};

std::vector<Case> cases() {
    return {{"one pixel", 3, axis(1, 1, 1, 1), axis(1, 1, 1, 1)},
            {"as in MobileNetV2", 32, axis(7, 1, 1, 1), axis(9, 1, 1, 1)},
            {"stride", 24, axis(8, 2, 1, 1), axis(11, 2, 1, 1)},
            {"more channels than a block has", 264, axis(3, 1, 1, 1), axis(5, 1, 1, 1)},
            {"odd channels", 5, axis(9, 2, 0, 1), axis(7, 2, 0, 1)},
            {"dilation", 8, axis(9, 1, 2, 2), axis(8, 1, 2, 2)},
            {"unlike axes", 4, axis(6, 1, 0, 1), axis(13, 2, 1, 2)},
            {"stride beyond the kernel", 4, axis(13, 4, 0, 1), axis(9, 4, 1, 1)}};
}

constexpr int kSamples = 2;

/// Calls f(image, filter, result) with the elements of every product of a channel.
void for_each_product(const Case& c,
                      const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f) {
    for (int n = 0; n < kSamples; ++n) {
        for (int oh = 0; oh < c.height.result; ++oh) {
            for (int ow = 0; ow < c.width.result; ++ow) {
                for (int tap = 0; tap < kDepthwiseKernel * kDepthwiseKernel; ++tap) {
                    const int h = oh * c.height.stride - c.height.padding +
                                  tap / kDepthwiseKernel * c.height.dilation;
                    const int w = ow * c.width.stride - c.width.padding +
                                  tap % kDepthwiseKernel * c.width.dilation;
                    if (h < 0 || h >= c.height.image || w < 0 || w >= c.width.image) {
                        continue;
                    }
                    for (std::int64_t k = 0; k < c.channels; ++k) {
                        f(((n * c.height.image + h) * c.width.image + w) * c.channels + k,
                          k * kDepthwiseKernel * kDepthwiseKernel + tap,
                          ((n * c.height.result + oh) * c.width.result + ow) * c.channels + k);
                    }
                }
            }
        }
    }
}

class Depthwise : public testing::TestWithParam<ElementType> {
protected:
    void expect(const Case& c) {
        SCOPED_TRACE(c.name);
        const DepthwiseProblem p{.samples = kSamples,
                                 .channels = c.channels,
                                 .height = c.height,
                                 .width = c.width,
                                 .type = GetParam(),
                                 .multiprocessors = kMultiprocessors};
        ASSERT_TRUE(depthwise_possible(p));
        const std::int64_t images = kSamples * c.height.image * c.width.image * c.channels;
        const std::int64_t results = kSamples * c.height.result * c.width.result * c.channels;
        const std::int64_t weights = c.channels * kDepthwiseKernel * kDepthwiseKernel;
        Tensor image(p.type, images, noise);
        Tensor filter(p.type, weights, [](std::int64_t i) { return noise(3 * i + 1); });
        Tensor gradient(p.type, results, [](std::int64_t i) { return noise(5 * i + 2); });
        std::vector<double> forward(static_cast<std::size_t>(results));
        std::vector<double> data(static_cast<std::size_t>(images));
        std::vector<double> sums(static_cast<std::size_t>(weights));
        for_each_product(c, [&](std::int64_t i, std::int64_t f, std::int64_t r) {
            forward[static_cast<std::size_t>(r)] += image[i] * filter[f];
            data[static_cast<std::size_t>(i)] += gradient[r] * filter[f];
            sums[static_cast<std::size_t>(f)] += image[i] * gradient[r];
        });
        const double nan = std::numeric_limits<double>::quiet_NaN();
        Tensor result(p.type, results, [nan](std::int64_t) { return nan; });
        depthwise_forward(nullptr, p, image.data(), filter.data(), result.data());
        expect_near(result, forward, rounding(p.type));
        Tensor assigned(p.type, images, [nan](std::int64_t) { return nan; });
        depthwise_image_gradient(nullptr, p, gradient.data(), filter.data(), false,
                                 assigned.data());
        expect_near(assigned, data, rounding(p.type));
        Tensor added(p.type, images, noise);
        for (std::size_t i = 0; i < data.size(); ++i) {
            data[i] += added[static_cast<std::int64_t>(i)];
        }
        depthwise_image_gradient(nullptr, p, gradient.data(), filter.data(), true, added.data());
        expect_near(added, data, rounding(p.type));
        std::vector<float> partials(depthwise_partial_bytes(p) / sizeof(float),
                                    std::numeric_limits<float>::quiet_NaN());
        Tensor found(ElementType::kF32, weights);
        depthwise_filter_gradient(nullptr, p, image.data(), gradient.data(), partials.data(),
                                  found.floats());
        expect_near(found, sums, 2e-5);  // not rounded to the type
    }

    static void expect_near(const Tensor& got, const std::vector<double>& wanted, double limit) {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            ASSERT_NEAR(got[static_cast<std::int64_t>(i)], wanted[i],
                        limit * (1 + std::abs(wanted[i])))
                << "element " << i;
        }
    }
};

TEST_P(Depthwise, IsTheConvolutionOfEachChannel) {
    for (const Case& c : cases()) {
        expect(c);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Depthwise,
                         testing::Values(ElementType::kF32, ElementType::kBf16, ElementType::kF16),
                         [](const auto& made) { return std::string(word_of(made.param)); });

TEST(DepthwiseProblem, TooManyPixelsAreLeftToCudnn) {
    DepthwiseProblem p{
        .samples = 1, .channels = 8, .height = axis(1000, 1, 1, 1), .width = axis(1000, 1, 1, 1)};
    EXPECT_TRUE(depthwise_possible(p));
    p.samples = 2000;
    EXPECT_FALSE(depthwise_possible(p));
}

}  // namespace
}  // namespace cohort::cuda
