// Kernels of text, run on the CPU thread by thread (support/gpu/cuda_on_cpu.hpp): more rows,
// columns and equal tokens than a block takes at once. Small whole numbers: sums are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "layers/cuda/kernels/layer_norm_kernels.hpp"
#include "layers/cuda/kernels/linear_kernels.hpp"
#include "layers/cuda/kernels/loss_kernels.hpp"
#include "layers/cuda/kernels/text_kernels.hpp"

namespace cohort::cuda {
namespace {

std::vector<float> whole_numbers(std::int64_t count, int seed) {
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < count; ++i) {
        numbers.push_back(static_cast<float>((i * 7 + seed * 5 + i / 13) % 9 - 4));
    }
    return numbers;
}

std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
    return static_cast<std::size_t>(row * columns + column);
}

TEST(TextKernels, RowsOfATokenAreAddedToItsRowAlone) {
    constexpr std::int64_t kVocabulary = 9;
    for (const std::int64_t features : {1, 130, 300}) {
        std::vector<std::int32_t> tokens;
        for (int i = 0; i < 300; ++i) {
            tokens.push_back(i % 3 == 0 ? 4 : i * i % 8);  // a frequent one; 8 does not occur
        }
        const auto count = static_cast<std::int64_t>(tokens.size());
        const std::vector<float> from = whole_numbers(count * features, 1);
        std::vector<float> table = whole_numbers(kVocabulary * features, 2);
        std::vector<float> wanted = table;
        for (std::int64_t i = 0; i < count; ++i) {
            for (std::int64_t f = 0; f < features; ++f) {
                wanted[at(tokens[static_cast<std::size_t>(i)], features, f)] +=
                    from[at(i, features, f)];
            }
        }
        std::vector<std::byte> scratch(row_sum_scratch(count));
        add_rows(nullptr, ElementType::kF32, {tokens.data(), count, features}, from.data(),
                 table.data(), scratch.data());
        EXPECT_EQ(table, wanted) << features;

        std::vector<float> rows(from.size());
        gather_rows(nullptr, ElementType::kF32, {tokens.data(), count, features}, table.data(),
                    rows.data());
        for (std::int64_t i = 0; i < count; ++i) {
            ASSERT_EQ(rows[at(i, features, features - 1)],
                      table[at(tokens[static_cast<std::size_t>(i)], features, features - 1)]);
        }
    }
}

TEST(TextKernels, ColumnSumsAddToWhatIsThere) {
    for (const std::int64_t rows : {3, 700}) {
        constexpr std::int64_t kColumns = 40;
        const std::vector<float> matrix = whole_numbers(rows * kColumns, 3);
        std::vector<float> sums = whole_numbers(kColumns, 4);
        std::vector<float> wanted = sums;
        for (std::int64_t i = 0; i < rows * kColumns; ++i) {
            wanted[static_cast<std::size_t>(i % kColumns)] += matrix[static_cast<std::size_t>(i)];
        }
        std::vector<std::byte> scratch(column_sum_scratch(rows, kColumns) + 1);
        sum_columns(nullptr, ElementType::kF32, sums.data(), matrix.data(), rows, kColumns,
                    scratch.data(), true);
        EXPECT_EQ(sums, wanted) << rows;
    }
}

TEST(TextKernels, LayerNormSumsManyRows) {
    constexpr std::int64_t kRows = 700;
    constexpr std::int64_t kFeatures = 40;
    const std::vector<float> input = whole_numbers(kRows * kFeatures, 5);
    const std::vector<float> gradient = whole_numbers(kRows * kFeatures, 6);
    std::vector<float> statistics;  // whole numbers, too
    for (std::int64_t row = 0; row < kRows; ++row) {
        statistics.push_back(static_cast<float>(row % 3));
        statistics.push_back(static_cast<float>(row % 2 + 1));
    }
    std::vector<float> wanted(2 * kFeatures);
    for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t f = 0; f < kFeatures; ++f) {
            const float dy = gradient[at(row, kFeatures, f)];
            wanted[at(0, kFeatures, f)] +=
                dy * (input[at(row, kFeatures, f)] - statistics[at(row, 2, 0)]) *
                statistics[at(row, 2, 1)];
            wanted[at(1, kFeatures, f)] += dy;
        }
    }
    std::vector<float> sums(2 * kFeatures);
    std::vector<std::byte> scratch(layer_norm_scratch(kRows, kFeatures));
    layer_norm_sums(nullptr,
                    {.rows = kRows,
                     .features = kFeatures,
                     .input = input.data(),
                     .statistics = statistics.data()},
                    gradient.data(), sums.data(), sums.data() + kFeatures, scratch.data());
    EXPECT_EQ(sums, wanted);
}

/// Logits of one row of many classes: loss and whether the label is the first of the largest. The
/// gradient takes their place.
struct Row {
    double loss = 0;
    double correct = 0;
};
Row cross_entropy_of(std::vector<float>& logits, std::int32_t label) {
    std::vector<LossSums> partial(kMostLossSums);
    LossSums total;
    const StepValues step;
    unsigned arrivals = 0;
    cross_entropy(nullptr, {.slice = {.samples = 1,
                                      .logits = logits.data(),
                                      .labels = &label,
                                      .gradient = logits.data()},
                            .outputs = static_cast<std::int64_t>(logits.size()),
                            .step = &step,
                            .partial = partial.data(),
                            .total = &total,
                            .arrivals = &arrivals});
    return {total.loss, total.correct};
}

TEST(TextKernels, ManyClassesAsFew) {
    constexpr std::size_t kMany = 3000;
    std::vector<float> logits(kMany, -2.0F);
    logits[700] = 3;
    logits[2900] = 3;
    const double sum = 2 + (kMany - 2) * std::exp(-5.0);
    std::vector<float> gradient = logits;
    const Row first = cross_entropy_of(gradient, 700);
    EXPECT_NEAR(first.loss, std::log(sum), 1e-6);
    EXPECT_EQ(first.correct, 1);
    EXPECT_NEAR(gradient[700], 1 / sum - 1, 1e-6);
    EXPECT_NEAR(gradient[2900], 1 / sum, 1e-6);
    EXPECT_NEAR(gradient[5], std::exp(-5.0) / sum, 1e-7);
    gradient = logits;
    EXPECT_EQ(cross_entropy_of(gradient, 2900).correct, 0);  // the first of equals counts
    gradient = logits;
    gradient[1500] = std::nanf("");
    EXPECT_TRUE(std::isnan(cross_entropy_of(gradient, 3).loss));
}

}  // namespace
}  // namespace cohort::cuda
