// The optimizers' and vector sums' CUDA kernels themselves, run on the CPU thread by thread
// (support/cuda_on_cpu.hpp): the bits of the CPU's loops.
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/optim/vector_math.hpp"
#include "cuda/math_kernels.hpp"
#include "cuda/update_kernels.hpp"
#include "range_optimizer.hpp"
#include "support/optimizer_run.hpp"
#include "update_units.hpp"

namespace cohort {
namespace {

using test::random_floats;

FlatLayout mixed_layout() {
    FlatLayout layout;
    layout.add("conv.weight", Shape{5, 7}, true);  // 35 of 48
    layout.add("bn.scale", Shape{5}, false);       // 5 of 16
    layout.add("fc.weight", Shape{32}, true);      // no padding
    layout.add("fc.bias", Shape{3}, false);
    layout.add("large.weight", Shape{4000}, true);  // several blocks of threads
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

struct Case {
    OptimizerKind kind;
    bool nesterov;
    bool decoupled;
};

class UpdateKernels : public testing::TestWithParam<Case> {
protected:
    /// Both optimizers of [begin, end) do the same updates; parameters and state stay equal.
    void compare(const FlatLayout& layout, std::int64_t begin, std::int64_t end);
};

void UpdateKernels::compare(const FlatLayout& layout, std::int64_t begin, std::int64_t end) {
    const std::int64_t size = end - begin;
    const OptimizerOptions options{.kind = GetParam().kind,
                                   .nesterov = GetParam().nesterov,
                                   .weight_decay = 0.1,
                                   .decoupled = GetParam().decoupled};
    const auto device = make_cpu_device(1);
    const auto stream = device->create_stream();
    const auto loops = make_optimizer(options, layout, begin, end, *device, *stream);
    auto updates = std::make_unique<ByKernels>(layout, begin, end);
    const auto by_kernels = options.kind == OptimizerKind::kSgd
                                ? make_sgd(options, size, *device, *stream, std::move(updates))
                                : make_adamw(options, size, *device, *stream, std::move(updates));
    std::vector<float> theta = random_floats(size, 1);  // padding too: nobody touches it
    std::vector<float> same = theta;
    std::uint64_t key = 2;
    for (const double fraction : {1.0, 0.25, 0.5, 0.25, 1.0, 2.5, 0.5, 1.0}) {
        const std::vector<float> gradient = random_floats(size, key++);
        loops->update(theta, gradient, fraction, 0.1);
        by_kernels->update(same, gradient, fraction, 0.1);
        ASSERT_EQ(theta, same) << "fraction " << fraction;
    }
    std::vector<float> delta = random_floats(size, key);
    loops->begin_delta(2, 0.1);
    loops->apply(0, theta, delta);
    by_kernels->begin_delta(2, 0.1);  // in pieces, one of them not aligned
    constexpr std::size_t kCut = 17;
    const std::span<float> whole(same);
    const std::span<const float> moved(delta);
    by_kernels->apply(kCut, whole.subspan(kCut), moved.subspan(kCut));
    by_kernels->apply(0, whole.first(kCut), moved.first(kCut));
    EXPECT_EQ(theta, same);
    const auto slots = loops->slots();
    const auto others = by_kernels->slots();
    for (std::size_t s = 0; s < slots.size(); ++s) {
        EXPECT_TRUE(
            std::equal(slots[s].values.begin(), slots[s].values.end(), others[s].values.begin()))
            << slots[s].name;
    }
}

TEST_P(UpdateKernels, GiveTheBitsOfTheLoops) {
    const FlatLayout layout = mixed_layout();
    compare(layout, 0, layout.total());
}

TEST_P(UpdateKernels, GiveThemForARangeThatCutsThroughTensors) {
    const FlatLayout layout = mixed_layout();
    compare(layout, 4, layout.total() - 3);  // groups of four floats
    compare(layout, 7, layout.total() - 3);  // one by one
}

INSTANTIATE_TEST_SUITE_P(Rules, UpdateKernels,
                         testing::Values(Case{OptimizerKind::kSgd, false, false},
                                         Case{OptimizerKind::kSgd, true, false},
                                         Case{OptimizerKind::kSgd, false, true},
                                         Case{OptimizerKind::kAdamW, false, false},
                                         Case{OptimizerKind::kAdamW, false, true}));

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
