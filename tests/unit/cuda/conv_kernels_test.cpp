// Bias and ReLU of convolutions, copies of weights and images: the CUDA kernels themselves, run on
// the CPU thread by thread (support/gpu/cuda_on_cpu.hpp), against plain loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "layers/cuda/kernels/conv_kernels.hpp"
#include "layers/cuda/kernels/weight_copies.hpp"
#include "support/gpu/kernel_tensor.hpp"

namespace cohort::cuda {
namespace {

TEST(ConvKernels, BiasAndReluAndTheirGradients) {
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
        for (const std::int64_t channels : {1, 10, 16, 72}) {
            for (const bool relu : {false, true}) {
                constexpr std::int64_t kRows = 333;
                const RowProblem p{.rows = kRows,
                                   .channels = channels,
                                   .type = type,
                                   .tiles = channel_tiles(kRows, channels, type, kMultiprocessors)};
                Tensor y(type, kRows * channels, noise);
                const Tensor before = y;
                Tensor bias(ElementType::kF32, channels, [](std::int64_t i) { return noise(i); });
                add_bias_relu(nullptr, p, bias.floats(), relu, y.data());
                Tensor gradient(type, kRows * channels,
                                [](std::int64_t i) { return noise(2 * i); });
                const Tensor whole = gradient;
                std::vector<float> partials(bias_partial_bytes(p) / sizeof(float));
                Tensor sums(ElementType::kF32, channels);
                relu_bias_gradient(nullptr, p, relu, y.data(), gradient.data(), partials.data(),
                                   sums.floats());
                for (std::int64_t c = 0; c < channels; ++c) {
                    double sum = 0;
                    for (std::int64_t row = 0; row < kRows; ++row) {
                        const std::int64_t i = row * channels + c;
                        const double value = before[i] + bias[c];
                        const double expected = relu ? std::max(value, 0.0) : value;
                        ASSERT_NEAR(y[i], expected, rounding(type) * (1 + std::abs(expected)));
                        ASSERT_EQ(gradient[i], relu && y[i] <= 0 ? 0.0 : whole[i]);
                        sum += gradient[i];
                    }
                    EXPECT_NEAR(sums[c], sum, 1e-4);
                }
            }
        }
    }
}

TEST(ConvKernels, ReluWithoutBias) {
    const RowProblem p{.rows = 20,
                       .channels = 4,
                       .type = ElementType::kF32,
                       .tiles = channel_tiles(20, 4, ElementType::kF32, kMultiprocessors)};
    Tensor y(ElementType::kF32, 80, noise);
    const Tensor before = y;
    Tensor gradient(ElementType::kF32, 80, [](std::int64_t i) { return noise(2 * i); });
    const Tensor whole = gradient;
    add_bias_relu(nullptr, p, nullptr, true, y.data());
    relu_bias_gradient(nullptr, p, true, y.data(), gradient.data(), nullptr, nullptr);
    for (std::int64_t i = 0; i < 80; ++i) {
        EXPECT_EQ(y[i], std::max(before[i], 0.0));
        EXPECT_EQ(gradient[i], before[i] > 0 ? whole[i] : 0.0);
    }
}

TEST(WeightCopies, OneLaunchMakesAllCopiesAndGradientsComeBack) {
    const std::vector<WeightForm> forms{{16, 3, 9, 8, true, ElementType::kBf16},
                                        {70, 40, 1, 40, false, ElementType::kF16},
                                        {5, 7, 25, 7, true, ElementType::kF32}};
    std::vector<Tensor> parameters;
    std::vector<Tensor> copies;
    std::vector<WeightCopy> table;
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < forms.size(); ++i) {
        const WeightForm& form = forms[i];
        parameters.emplace_back(ElementType::kF32, form.outer * form.channels * form.inner, noise);
        copies.emplace_back(forms[i].type, form.elements(), [](std::int64_t) { return 77.0; });
        table.push_back({parameters[i].floats(), copies[i].data(), form, blocks});
        blocks += blocks_of_copy(form);
    }
    refresh_copies(nullptr, table.data(), static_cast<int>(table.size()), blocks);
    for (std::size_t i = 0; i < forms.size(); ++i) {
        for (std::int64_t e = 0; e < forms[i].elements(); ++e) {
            const std::int64_t source = weight_source(forms[i], e);
            const double expected = source < 0 ? 0.0 : parameters[i][source];
            ASSERT_NEAR(copies[i][e], expected, rounding(forms[i].type));
        }
        const std::int64_t elements = forms[i].outer * forms[i].channels * forms[i].inner;
        Tensor back(ElementType::kF32, elements);
        store_weight_gradient(nullptr, forms[i], copies[i].data(), back.floats());
        for (std::int64_t e = 0; e < elements; ++e) {
            ASSERT_NEAR(back[e], parameters[i][e], rounding(forms[i].type));
        }
    }
}

TEST(WeightCopies, ImagesGoToChannelsLastAndBack) {
    constexpr std::int64_t kSamples = 3;
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
        const ImageOrder order{3, 8, 35};
        const std::int64_t elements = kSamples * order.channels * order.pixels;
        Tensor images(ElementType::kF32, elements, noise);
        Tensor stored(type, kSamples * order.stored * order.pixels,
                      [](std::int64_t) { return 77.0; });
        Tensor back(ElementType::kF32, elements);
        images_to_channels_last(nullptr, order, type, images.floats(), stored.data(), kSamples);
        images_to_row_major(nullptr, order, type, stored.data(), back.floats(), kSamples);
        for (std::int64_t i = 0; i < elements; ++i) {
            ASSERT_NEAR(back[i], images[i], rounding(type));
        }
        EXPECT_EQ(stored[5], 0) << "a missing channel";
    }
}

}  // namespace
}  // namespace cohort::cuda
