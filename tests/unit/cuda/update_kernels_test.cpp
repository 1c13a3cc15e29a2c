// The optimizers' and vector sums' CUDA kernels themselves, run on the CPU thread by thread
// (support/gpu/cuda_on_cpu.hpp): the bits of the CPU's loops.
#include <gtest/gtest.h>

#include <cmath>

#include "optim/cuda/math_kernels.hpp"
#include "optim/cuda/update_kernels.hpp"
#include "optim/update_units.hpp"
#include "optim/vector_math.hpp"
#include "support/gpu/update_rules.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using test::random_floats;

/// With a tensor for several blocks of threads.
FlatLayout large_layout() {
    FlatLayout layout = test::mixed_layout();
    layout.add("large.weight", Shape{4000}, true);
    return layout;
}

class ByKernels final : public Updates {
public:
    ByKernels(const FlatLayout& layout, std::int64_t begin, std::int64_t end)
        : first_(begin % FlatLayout::kAlignment), units_(update_units(layout, begin, end)) {}

    void sgd(const kernels::SgdFactors& factors, kernels::Decay decay, const UpdatePiece& piece,
             float* u) override {
        cuda::launch_sgd(nullptr, view(piece), factors, decay, u + piece.offset);
    }
    void adamw(const kernels::AdamFactors& factors, kernels::Decay decay, const UpdatePiece& piece,
               float* m, float* v, float* partial) override {
        cuda::launch_adamw(nullptr, view(piece), factors, decay, m + piece.offset, v + piece.offset,
                           partial + piece.offset);
    }
    void sgd_delta(const kernels::DeltaFactors& factors, const UpdatePiece& piece,
                   float* u) override {
        cuda::launch_sgd_delta(nullptr, view(piece), factors, u + piece.offset);
    }
    void add_delta(const UpdatePiece& piece) override {
        cuda::launch_add_delta(nullptr, view(piece));
    }
    void share(std::int64_t size,
               const std::function<void(std::int64_t, std::int64_t)>& apply) override {
        apply(0, size);
    }

private:
    [[nodiscard]] cuda::PieceView view(const UpdatePiece& piece) const {
        return {units_.data(), first_ + piece.offset, piece.count, piece.theta, piece.gradient};
    }

    std::int64_t first_;
    std::vector<std::uint8_t> units_;
};

class UpdateKernels : public testing::TestWithParam<test::RuleCase> {
protected:
    static void compare(std::int64_t begin, std::int64_t end) {
        const FlatLayout layout = large_layout();
        test::expect_the_bits_of_the_loops(GetParam(), layout, begin, end,
                                           std::make_unique<ByKernels>(layout, begin, end));
    }
};

TEST_P(UpdateKernels, GiveTheBitsOfTheLoops) {
    compare(0, large_layout().total());
}

TEST_P(UpdateKernels, GiveThemForARangeThatCutsThroughTensors) {
    const std::int64_t end = large_layout().total() - 3;
    compare(4, end);  // groups of four floats
    compare(7, end);  // one by one
}

INSTANTIATE_TEST_SUITE_P(Rules, UpdateKernels, testing::ValuesIn(test::rule_cases()));

TEST(MathKernels, SquaresAddUpOverPieces) {
    const std::vector<float> values = random_floats(50000, 20);
    std::vector<double> sums(cuda::kMostSquareSums + 1);
    cuda::launch_add_squares(nullptr, values.data(), 50000, sums.data() + 1, sums.data());
    cuda::launch_add_squares(nullptr, values.data(), 100, sums.data() + 1, sums.data());
    const double wanted =
        sum_of_squares(values) + sum_of_squares(std::span<const float>(values).first(100));
    EXPECT_NEAR(sums[0], wanted, 1e-10 * wanted);
}

TEST(MathKernels, SquaresOfWhatIsNotFiniteAreNotFinite) {
    std::vector<float> values = random_floats(5000, 21);
    values[4321] = std::nanf("");
    std::vector<double> sums(cuda::kMostSquareSums + 1);
    cuda::launch_add_squares(nullptr, values.data(), 5000, sums.data() + 1, sums.data());
    EXPECT_TRUE(std::isnan(sums[0]));
    values[4321] = 3e38F;  // its square is no single precision number
    sums[0] = 0;
    cuda::launch_add_squares(nullptr, values.data(), 5000, sums.data() + 1, sums.data());
    EXPECT_TRUE(std::isfinite(sums[0]));
}

TEST(MathKernels, ProductAndSumAreRoundedEach) {
    constexpr std::int64_t kCount = 1000;
    const std::vector<float> from = random_floats(kCount, 22);
    const std::vector<float> before = random_floats(kCount, 23);
    std::vector<float> sum = before;
    std::vector<float> scaled(from.size());
    cuda::launch_scale(nullptr, scaled.data(), from.data(), kCount, 0.37F);
    cuda::launch_add_scaled(nullptr, sum.data(), from.data(), kCount, 0.37F);
    for (std::size_t i = 0; i < from.size(); ++i) {
        ASSERT_EQ(scaled[i], 0.37F * from[i]);
        ASSERT_EQ(sum[i], before[i] + scaled[i]);
    }
}

}  // namespace
}  // namespace cohort
