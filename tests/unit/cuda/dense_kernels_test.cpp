// Elementwise layers, copies, dropout, column sums and losses: the CUDA kernels themselves, run on
// the CPU thread by thread (support/gpu/cuda_on_cpu.hpp), against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/tensor/cuda/elements.cuh"
#include "layers/cuda/kernels/dropout_kernels.hpp"
#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/kernels/linear_kernels.hpp"
#include "layers/cuda/kernels/loss_kernels.hpp"
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/kernels/weight_copies.hpp"
#include "layers/cuda/rules/activation_rules.hpp"

namespace cohort::cuda {
namespace {

/// `count` elements of type T, aligned to 16 bytes.
template <class T>
class Tensor {
public:
    explicit Tensor(std::int64_t count) : parts_(static_cast<std::size_t>(count) / kPart + 1) {}
    /// Numbers without a pattern in [-scale, scale].
    Tensor(std::int64_t count, int seed, float scale = 1) : Tensor(count) {
        for (std::int64_t i = 0; i < count; ++i) {
            const auto x = static_cast<float>(i + 1000 * seed);
            at(i) = from_float<T>(scale * std::sin(12.9898F * x + static_cast<float>(seed)));
        }
    }
    [[nodiscard]] T* data() { return parts_.data()->at; }
    [[nodiscard]] T& at(std::int64_t i) { return data()[i]; }
    [[nodiscard]] float operator[](std::int64_t i) { return to_float(data()[i]); }

private:
    static constexpr std::size_t kPart = 16 / sizeof(T);
    struct alignas(16) Part {
        T at[kPart];
    };
    std::vector<Part> parts_;
};

template <class T>
constexpr ElementType kTypeOf = ElementType::kF32;
template <>
constexpr ElementType kTypeOf<__nv_bfloat16> = ElementType::kBf16;
template <>
constexpr ElementType kTypeOf<__half> = ElementType::kF16;

template <class T>
float rounded(float value) {
    return to_float(from_float<T>(value));
}

template <class T>
class DenseKernels : public testing::Test {
protected:
    static constexpr ElementType kType = kTypeOf<T>;
    /// Of a number up to 1 that was rounded to the type.
    static constexpr float kRounding = sizeof(T) == 4 ? 2e-6F : 8e-3F;
};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(DenseKernels, Types);

TYPED_TEST(DenseKernels, ElementwiseWithAndWithoutARestAndAlignment) {
    using T = TypeParam;
    for (const std::int64_t count : {1, 8, 37, 1000}) {
        for (const std::int64_t skipped : {0, 1}) {
            const std::int64_t n = count - skipped;
            Tensor<T> a(count, 1);
            Tensor<T> b(count, 2);
            Tensor<T> sum(count);
            Tensor<T> masked(count);
            Tensor<T> total(count, 1);
            add_two_elements(nullptr, this->kType, sum.data() + skipped, a.data() + skipped,
                             b.data() + skipped, n, true);
            relu_mask_elements(nullptr, this->kType, masked.data() + skipped, sum.data() + skipped,
                               b.data() + skipped, n);
            add_two_elements(nullptr, this->kType, total.data() + skipped, total.data() + skipped,
                             b.data() + skipped, n, false);
            for (std::int64_t i = skipped; i < count; ++i) {
                ASSERT_EQ(sum[i], rounded<T>(std::max(a[i] + b[i], 0.0F))) << i;
                ASSERT_EQ(masked[i], sum[i] > 0 ? b[i] : 0.0F) << i;
                ASSERT_EQ(total[i], rounded<T>(a[i] + b[i])) << i;
            }
        }
    }
}

TYPED_TEST(DenseKernels, CastsRoundToTheType) {
    using T = TypeParam;
    Tensor<float> from(77, 3, 1e5F);
    Tensor<T> to(77);
    Tensor<float> back(77);
    cast_elements(nullptr, this->kType, to.data(), ElementType::kF32, from.data(), 77);
    cast_elements(nullptr, ElementType::kF32, back.data(), this->kType, to.data(), 77);
    for (std::int64_t i = 0; i < 77; ++i) {
        ASSERT_EQ(to[i], rounded<T>(from[i]));
        ASSERT_EQ(back[i], to[i]);
    }
}

TYPED_TEST(DenseKernels, SigmoidLeavesPaddingChannelsZero) {
    using T = TypeParam;
    const TensorFormat format{Shape{3, 2, 5}, 8, this->kType};
    const std::int64_t count = 4 * 80;
    Tensor<T> x(count, 4, 3);
    Tensor<T> y(count);
    activate(nullptr, ActivationKind::kSigmoid, format, 4, y.data(), x.data());
    for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(y[i], i % 8 < 3 ? rounded<T>(sigmoid(x[i])) : 0.0F) << i;
    }
}

TYPED_TEST(DenseKernels, ColumnsGoToTheirPlace) {
    using T = TypeParam;
    for (const std::int64_t first : {16, 15}) {  // 16 bytes at a time, and one by one
        const ColumnCopy copy{.rows = 13,
                              .width = 24,
                              .filled = 32,
                              .from_stride = 40,
                              .from_column = first,
                              .to_stride = 56,
                              .to_column = 8};
        Tensor<T> from(13 * 40, 5);
        Tensor<T> to(13 * 56);
        copy_columns(nullptr, this->kType, copy, to.data(), from.data());
        for (std::int64_t row = 0; row < 13; ++row) {
            for (std::int64_t c = 0; c < 32; ++c) {
                ASSERT_EQ(to[row * 56 + 8 + c], c < 24 ? from[row * 40 + first + c] : 0.0F);
            }
        }
    }
}

TYPED_TEST(DenseKernels, TranspositionThereAndBack) {
    using T = TypeParam;
    constexpr std::int64_t kBatch = 3;
    for (const auto [pixels, channels, block] : std::vector<std::array<std::int64_t, 3>>{
             {35, 3, 4}, {64, 70, 70}, {1, 5, 8}, {33, 1, 4}}) {
        Tensor<T> from(kBatch * pixels * block, 6);
        Tensor<T> to(kBatch * pixels * channels);
        Tensor<T> back(kBatch * pixels * block);
        transpose_batch(nullptr, this->kType,
                        {.batch = kBatch,
                         .rows = pixels,
                         .columns = channels,
                         .from_stride = block,
                         .to_stride = pixels},
                        to.data(), from.data());
        transpose_batch(nullptr, this->kType,
                        {.batch = kBatch,
                         .rows = channels,
                         .columns = pixels,
                         .from_stride = pixels,
                         .to_stride = block},
                        back.data(), to.data());
        for (std::int64_t i = 0; i < kBatch * pixels * block; ++i) {
            const std::int64_t c = i % block;
            const std::int64_t n = i / (pixels * block);
            const std::int64_t p = i / block % pixels;
            if (c < channels) {
                ASSERT_EQ(to[(n * channels + c) * pixels + p], from[i]);
            }
            ASSERT_EQ(back[i], c < channels ? from[i] : 0.0F);
        }
    }
}

TYPED_TEST(DenseKernels, DropoutHasTheCpusMask) {
    using T = TypeParam;
    constexpr float kProbability = 0.3F;
    const std::vector<std::int64_t> ids = {5, 8, 1234567890123, 0};
    const StepValues step{.seed = 99, .epoch = 4};
    for (const DropoutShape& shape :
         {DropoutShape{101, 1, 101}, DropoutShape{5, 16, 5}, DropoutShape{7, 9, 7}}) {
        const std::int64_t stored = shape.elements();
        Tensor<T> from(4 * stored, 7);
        Tensor<T> to(4 * stored);
        drop_elements(nullptr, this->kType, shape, 4, kProbability, 2, &step, ids.data(), to.data(),
                      from.data());
        for (std::int64_t n = 0; n < 4; ++n) {
            Rng rng(99, RngPurpose::kDropout,
                    static_cast<std::uint64_t>(ids[static_cast<std::size_t>(n)]), (2U << 16U) ^ 4U);
            for (std::int64_t i = 0; i < stored; ++i) {  // row-major
                const std::int64_t at =
                    n * stored + i % shape.pixels * shape.channels + i / shape.pixels;
                const bool kept = rng.next_uniform() >= kProbability;
                ASSERT_EQ(to[at],
                          kept ? rounded<T>(from[at] * (1.0F / (1.0F - kProbability))) : 0.0F);
            }
        }
    }
}

TYPED_TEST(DenseKernels, ColumnSumsOfFewAndOfManyRows) {
    using T = TypeParam;
    for (const auto [rows, columns] :
         std::vector<std::array<std::int64_t, 2>>{{1, 1}, {300, 33}, {20000, 10}}) {
        Tensor<T> matrix(rows * columns, 8);
        Tensor<float> sums(columns);
        std::vector<std::byte> scratch(column_sum_scratch(rows, columns) + 1);
        sum_columns(nullptr, this->kType, sums.data(), matrix.data(), rows, columns,
                    scratch.data());
        for (std::int64_t c = 0; c < columns; ++c) {
            double wanted = 0;
            for (std::int64_t r = 0; r < rows; ++r) {
                wanted += static_cast<double>(matrix[r * columns + c]);
            }
            ASSERT_NEAR(sums[c], wanted, 1e-4 * std::sqrt(static_cast<double>(rows)));
        }
    }
}

TYPED_TEST(DenseKernels, BiasAndReluWhereNoProductHasThem) {
    using T = TypeParam;
    Tensor<T> before(7 * 13, 9);
    Tensor<T> y(7 * 13, 9);
    Tensor<float> bias(13, 10);
    add_bias(nullptr, this->kType, y.data(), bias.data(), 7, 13, true);
    for (std::int64_t i = 0; i < 7 * 13; ++i) {
        ASSERT_EQ(y[i], rounded<T>(std::max(before[i] + bias[i % 13], 0.0F)));
    }
}

TYPED_TEST(DenseKernels, CrossEntropyItsGradientAndWhoIsRight) {
    using T = TypeParam;
    for (const auto [samples, classes] :
         std::vector<std::array<std::int64_t, 2>>{{1, 2}, {37, 10}, {9, 100}, {3, 33}}) {
        Tensor<T> logits(samples * classes, 11, 3);
        logits.at(1) = logits.at(0);  // of equals the first wins
        Tensor<T> gradient(samples * classes);
        std::vector<std::int32_t> labels;
        for (std::int64_t n = 0; n < samples; ++n) {
            labels.push_back(static_cast<std::int32_t>(n * 7 % classes));
        }
        const StepValues step{.loss_scale = 8};
        std::vector<LossSums> sums(kMostLossSums + 1);
        unsigned arrivals = 0;
        cross_entropy(nullptr, {.slice = {.samples = samples,
                                          .logits = reinterpret_cast<float*>(logits.data()),
                                          .labels = labels.data(),
                                          .scale = 1.0F / static_cast<float>(samples),
                                          .gradient = reinterpret_cast<float*>(gradient.data())},
                                .outputs = classes,
                                .type = this->kType,
                                .step = &step,
                                .partial = sums.data() + 1,
                                .total = sums.data(),
                                .arrivals = &arrivals});
        double loss = 0;
        std::int64_t correct = 0;
        for (std::int64_t n = 0; n < samples; ++n) {
            std::int64_t best = 0;
            for (std::int64_t c = 1; c < classes; ++c) {
                best = logits[n * classes + c] > logits[n * classes + best] ? c : best;
            }
            const double largest = logits[n * classes + best];
            double total = 0;
            for (std::int64_t c = 0; c < classes; ++c) {
                total += std::exp(static_cast<double>(logits[n * classes + c]) - largest);
            }
            const std::int32_t label = labels[static_cast<std::size_t>(n)];
            loss += std::log(total) + largest - static_cast<double>(logits[n * classes + label]);
            correct += best == label ? 1 : 0;
            for (std::int64_t c = 0; c < classes; ++c) {
                const double p =
                    std::exp(static_cast<double>(logits[n * classes + c]) - largest) / total;
                ASSERT_NEAR(gradient[n * classes + c] * static_cast<float>(samples) / 8,
                            p - (c == label ? 1 : 0), this->kRounding);
            }
        }
        EXPECT_NEAR(sums[0].loss, loss, 1e-5 * static_cast<double>(samples));
        EXPECT_EQ(sums[0].correct, correct);
        EXPECT_EQ(arrivals, 0U);
    }
}

TYPED_TEST(DenseKernels, SquaredErrorAddsUp) {
    using T = TypeParam;
    constexpr std::int64_t kSamples = 50;
    constexpr std::int64_t kOutputs = 7;
    Tensor<T> outputs(kSamples * kOutputs, 12);
    Tensor<float> targets(kSamples * kOutputs, 13);
    Tensor<T> gradient(kSamples * kOutputs);
    const StepValues step;
    std::vector<LossSums> sums(kMostLossSums + 1);
    unsigned arrivals = 0;
    const LossWork work{.slice = {.samples = kSamples,
                                  .logits = reinterpret_cast<float*>(outputs.data()),
                                  .targets = targets.data(),
                                  .scale = 1.0F / kSamples,
                                  .gradient = reinterpret_cast<float*>(gradient.data())},
                        .outputs = kOutputs,
                        .type = this->kType,
                        .step = &step,
                        .partial = sums.data() + 1,
                        .total = sums.data(),
                        .arrivals = &arrivals};
    squared_error(nullptr, work);
    squared_error(nullptr, work);  // assigns
    double loss = 0;
    for (std::int64_t i = 0; i < kSamples * kOutputs; ++i) {
        const double error = static_cast<double>(outputs[i]) - static_cast<double>(targets[i]);
        loss += error * error / kOutputs;
        ASSERT_NEAR(gradient[i] * kSamples, 2 * error / kOutputs, this->kRounding);
    }
    EXPECT_NEAR(sums[0].loss, loss, 1e-4);
    EXPECT_EQ(arrivals, 0U);
    EXPECT_EQ(sums[0].correct, 0);
    LossWork later = work;
    later.adds = true;
    squared_error(nullptr, later);
    EXPECT_NEAR(sums[0].loss, 2 * loss, 2e-4);
}

TYPED_TEST(DenseKernels, LstmWeightsThereAndBack) {
    using T = TypeParam;
    LstmWeights weights{.features = 3, .hidden = 5, .offsets = {}};
    std::int64_t next = 2;
    for (const int part : {7, 0, 11, 2, 1, 9, 8, 3, 5, 4, 10, 6}) {
        weights.offsets[part] = next;
        next += weights.part_elements(part) + 1;
    }
    std::array<Tensor<float>, 3> ours = {Tensor<float>(60, 14), Tensor<float>(100, 15),
                                         Tensor<float>(20, 16)};
    std::array<Tensor<float>, 3> back = {Tensor<float>(60), Tensor<float>(100), Tensor<float>(20)};
    Tensor<T> space(next);
    pack_lstm_weights(nullptr, weights, this->kType, space.data(),
                      {{ours[0].data(), ours[1].data(), ours[2].data()}});
    unpack_lstm_gradients(nullptr, weights, this->kType,
                          {{back[0].data(), back[1].data(), back[2].data()}}, space.data());
    const std::int64_t sizes[3] = {60, 100, 20};
    for (std::size_t k = 0; k < 3; ++k) {
        for (std::int64_t i = 0; i < sizes[k]; ++i) {
            ASSERT_EQ(back[k][i], rounded<T>(ours[k][i]));
        }
    }
    EXPECT_EQ(space[weights.offsets[5]], rounded<T>(ours[1][25]));  // recurrent, forget gate
}

TEST(Unscale, DividesExactlyAndSeesWhatIsNotFinite) {
    Tensor<float> values(1000, 17);
    Tensor<float> before(1000, 17);
    StepValues step{.loss_scale = 1024};
    unscale_elements(nullptr, values.data(), 1000, &step);
    for (std::int64_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(values[i] * 1024, before[i]);
    }
    EXPECT_EQ(step.overflow, 0U);
    values.at(777) = -INFINITY;
    unscale_elements(nullptr, values.data(), 1000, &step);
    EXPECT_EQ(step.overflow, 1U);
    step.overflow = 0;
    values.at(777) = std::nanf("");
    unscale_elements(nullptr, values.data(), 1000, &step);
    EXPECT_EQ(step.overflow, 1U);
}

}  // namespace
}  // namespace cohort::cuda
