// Optimizers and sums over vectors in a device's memory, against those of the CPU: plain steps to
// the bit, others to the rounding of single precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cohort/core/error.hpp"
#include "layers/optim/device_math.hpp"
#include "support/gpu/gpu_backend.hpp"
#include "support/gpu/gpu_vector.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort::test {
namespace {

struct Rule {
    const char* name;
    OptimizerOptions options;
};

std::vector<Rule> rules() {
    return {{"sgd", {}},
            {"sgd_without_momentum", {.momentum = 0}},
            {"sgd_decay", {.weight_decay = 0.01}},
            {"sgd_decoupled", {.weight_decay = 0.01, .decoupled = true}},
            {"sgd_nesterov", {.nesterov = true, .weight_decay = 0.01}},
            {"adamw", {.kind = OptimizerKind::kAdamW, .weight_decay = 0.01, .decoupled = true}},
            {"adam_coupled", {.kind = OptimizerKind::kAdamW, .weight_decay = 0.01}}};
}

struct OptimParam {
    Backend backend;
    Rule rule;
};

std::vector<OptimParam> optim_params() {
    std::vector<OptimParam> params;
    for (const std::size_t backend : {0, 1}) {
        for (const Rule& rule : rules()) {
            params.push_back({all_backends()[backend], rule});
        }
    }
    return params;
}

/// Decaying and other tensors, padding between them, more than one block of a kernel.
FlatLayout layout() {
    FlatLayout made;
    made.add("conv.weight", Shape{5, 7}, true);
    made.add("bn.scale", Shape{5}, false);
    made.add("fc.weight", Shape{300, 411}, true);
    made.add("fc.bias", Shape{300}, false);
    made.add("last", Shape{33}, true);
    return made;
}

std::vector<float> filled(const FlatLayout& layout, std::uint64_t key) {
    const std::vector<float> values = random_floats(layout.total(), key);
    std::vector<float> result(values.size());
    for (const FlatRange& range : layout.ranges()) {
        std::copy_n(values.begin() + range.offset, range.size, result.begin() + range.offset);
    }
    return result;
}

/// An optimizer with its parameters on a device.
class DeviceRun {
public:
    DeviceRun(const Backend& backend, const OptimizerOptions& options, const FlatLayout& layout,
              std::int64_t begin, std::int64_t end, const std::vector<float>& start)
        : device_(backend.device(1)),
          stream_(device_->create_stream()),
          optimizer(make_optimizer(options, layout, begin, end, *device_, *stream_)),
          theta_(*device_, *stream_, start) {}

    void update(const std::vector<float>& gradient, double fraction, double lr) {
        const DeviceVector on_device(*device_, *stream_, gradient);
        optimizer->update(theta_.span(), on_device.span(), fraction, lr);
        stream_->synchronize();
    }
    void delta(const std::vector<float>& change, double fraction, double lr) {
        const DeviceVector on_device(*device_, *stream_, change);
        optimizer->begin_delta(fraction, lr);
        optimizer->apply(0, theta_.span(), on_device.span());
        stream_->synchronize();
    }
    void pieces(const std::vector<float>& gradient, double fraction, double lr,
                const std::vector<std::int64_t>& cuts) {
        const DeviceVector on_device(*device_, *stream_, gradient);
        optimizer->begin_update(fraction, lr);
        for (std::size_t i = cuts.size() - 1; i-- > 0;) {
            const auto first = static_cast<std::size_t>(cuts[i]);
            const auto count = static_cast<std::size_t>(cuts[i + 1]) - first;
            optimizer->apply(cuts[i], theta_.span().subspan(first, count),
                             on_device.span().subspan(first, count));
        }
        stream_->synchronize();
    }
    [[nodiscard]] std::vector<float> theta() const { return theta_.values(); }
    [[nodiscard]] std::vector<float> slot(std::size_t index) const {
        return DeviceVector::copy_of(*stream_, optimizer->slots().at(index).values);
    }

private:
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;

public:
    std::unique_ptr<Optimizer> optimizer;

private:
    DeviceVector theta_;
};

class OptimizerOnDevice : public ::testing::TestWithParam<OptimParam> {
protected:
    void SetUp() override { need(GetParam().backend); }

    [[nodiscard]] DeviceRun run() const {
        return DeviceRun(GetParam().backend, GetParam().rule.options, layout_, 0, layout_.total(),
                         filled(layout_, 0));
    }
    [[nodiscard]] OptimizerRun on_cpu() const {
        return OptimizerRun(GetParam().rule.options, layout_, 0, layout_.total(),
                            filled(layout_, 0));
    }
    void expect_close(const std::vector<float>& got, const std::vector<float>& wanted,
                      double limit) const {
        ASSERT_EQ(got.size(), wanted.size());
        double error = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_TRUE(std::isfinite(got[i])) << i;
            error = std::max(error, std::abs(static_cast<double>(got[i] - wanted[i])));
        }
        EXPECT_LE(error, limit);
    }

    FlatLayout layout_ = layout();
};

INSTANTIATE_TEST_SUITE_P(Rules, OptimizerOnDevice, ::testing::ValuesIn(optim_params()),
                         [](const auto& made) {
                             return std::string(made.param.backend.name) + "_" +
                                    made.param.rule.name;
                         });

TEST_P(OptimizerOnDevice, WholeBatchesGiveTheBitsOfTheCpu) {
    DeviceRun device = run();
    OptimizerRun cpu = on_cpu();
    for (std::uint64_t key = 1; key <= 5; ++key) {
        const std::vector<float> gradient = filled(layout_, key);
        device.update(gradient, 1, 0.05);
        cpu.update(gradient, 1, 0.05);
    }
    if (GetParam().rule.options.kind == OptimizerKind::kSgd) {
        EXPECT_EQ(device.theta(), cpu.theta);
        EXPECT_EQ(device.slot(0), std::vector<float>(cpu.slot(0).begin(), cpu.slot(0).end()));
    } else {
        expect_close(device.theta(), cpu.theta, 5e-6);
    }
}

TEST_P(OptimizerOnDevice, FractionsAgreeWithTheCpu) {
    DeviceRun device = run();
    OptimizerRun cpu = on_cpu();
    std::uint64_t key = 0;
    for (const double fraction : {0.5, 0.25, 0.25, 1.0, 1.5, 0.125, 0.875}) {
        const std::vector<float> gradient = filled(layout_, ++key);
        device.update(gradient, fraction, 0.05);
        cpu.update(gradient, fraction, 0.05);
        ASSERT_EQ(device.optimizer->scalars().size(), cpu.optimizer->scalars().size());
        for (std::size_t i = 0; i < device.optimizer->scalars().size(); ++i) {
            EXPECT_EQ(device.optimizer->scalars()[i].value, cpu.optimizer->scalars()[i].value);
        }
    }
    expect_close(device.theta(), cpu.theta, 1e-5);
    for (std::size_t i = 0; i < device.optimizer->slots().size(); ++i) {
        EXPECT_EQ(device.optimizer->slots()[i].name, cpu.optimizer->slots()[i].name);
        expect_close(device.slot(i), {cpu.slot(i).begin(), cpu.slot(i).end()}, 1e-5);
    }
}

TEST_P(OptimizerOnDevice, PiecesEqualTheWhole) {
    DeviceRun whole = run();
    DeviceRun parts = run();
    const std::int64_t total = layout_.total();
    std::uint64_t key = 0;
    for (const double fraction : {1.0, 0.5, 0.75}) {
        const std::vector<float> gradient = filled(layout_, ++key);
        whole.update(gradient, fraction, 0.05);
        parts.pieces(gradient, fraction, 0.05, {0, 7, 23, 48, 49, 100'001, total});
    }
    EXPECT_EQ(parts.theta(), whole.theta());
    EXPECT_EQ(parts.slot(0), whole.slot(0));
}

TEST_P(OptimizerOnDevice, ShardsTogetherEqualTheWhole) {
    DeviceRun whole = run();
    const std::vector<float> start = filled(layout_, 0);
    std::vector<float> joined;
    const std::vector<std::int64_t> cuts{0, 7, 23, 40, 90'003, layout_.total()};
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
        const auto cut = [&](const std::vector<float>& all) {
            return std::vector<float>(all.begin() + cuts[s], all.begin() + cuts[s + 1]);
        };
        DeviceRun shard(GetParam().backend, GetParam().rule.options, layout_, cuts[s], cuts[s + 1],
                        cut(start));
        for (std::uint64_t key = 1; key <= 3; ++key) {
            shard.update(cut(filled(layout_, key)), 0.5 + 0.25 * static_cast<double>(key), 0.05);
        }
        const std::vector<float> theta = shard.theta();
        joined.insert(joined.end(), theta.begin(), theta.end());
    }
    for (std::uint64_t key = 1; key <= 3; ++key) {
        whole.update(filled(layout_, key), 0.5 + 0.25 * static_cast<double>(key), 0.05);
    }
    EXPECT_EQ(joined, whole.theta());
}

TEST_P(OptimizerOnDevice, DeltasAgreeWithTheCpu) {
    DeviceRun device = run();
    OptimizerRun cpu = on_cpu();
    device.update(filled(layout_, 1), 1, 0.05);
    cpu.update(filled(layout_, 1), 1, 0.05);
    std::vector<float> change = filled(layout_, 2);
    std::for_each(change.begin(), change.end(), [](float& value) { value *= 0.01F; });
    for (const double lr : {0.05, 0.0}) {
        device.delta(change, 2, lr);
        cpu.optimizer->begin_delta(2, lr);
        cpu.optimizer->apply(0, cpu.theta, change);
    }
    device.update(filled(layout_, 3), 0.5, 0.05);
    cpu.update(filled(layout_, 3), 0.5, 0.05);
    expect_close(device.theta(), cpu.theta, 1e-5);
}

TEST_P(OptimizerOnDevice, NeverTouchesPadding) {
    DeviceRun device = run();
    std::vector<float> poisoned(static_cast<std::size_t>(layout_.total()), 1e30F);
    const std::vector<float> gradient = filled(layout_, 1);
    for (const FlatRange& range : layout_.ranges()) {
        std::copy_n(gradient.begin() + range.offset, range.size, poisoned.begin() + range.offset);
    }
    device.update(poisoned, 1, 0.05);
    const std::vector<float> theta = device.theta();
    std::vector<bool> owned(theta.size(), false);
    for (const FlatRange& range : layout_.ranges()) {
        std::fill_n(owned.begin() + range.offset, range.size, true);
    }
    for (std::size_t i = 0; i < theta.size(); ++i) {
        ASSERT_TRUE(owned[i] || theta[i] == 0) << "padding at " << i;
    }
}

TEST_P(OptimizerOnDevice, NonFiniteGradientsShow) {
    DeviceRun device = run();
    std::vector<float> gradient = filled(layout_, 1);
    gradient[3] = std::numeric_limits<float>::quiet_NaN();
    device.update(gradient, 1, 0.05);
    const std::vector<float> theta = device.theta();
    EXPECT_TRUE(std::isnan(theta[3]));
    EXPECT_TRUE(std::isfinite(theta[2]) && std::isfinite(theta[4]));
}

class MathOnDevice : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override {
        need(GetParam());
        if (!IsSkipped() && !HasFatalFailure()) {
            device_ = GetParam().device(1);
            stream_ = device_->create_stream();
            math_ = make_device_math(*device_, *stream_);
        }
    }
    [[nodiscard]] DeviceVector on_device(const std::vector<float>& values) const {
        return DeviceVector(*device_, *stream_, values);
    }

    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<DeviceMath> math_;
};

INSTANTIATE_TEST_SUITE_P(Backends, MathOnDevice,
                         ::testing::Values(all_backends()[0], all_backends()[1]), backend_name);

TEST_P(MathOnDevice, ScalesAndAddsWithTheBitsOfTheCpu) {
    for (const std::int64_t count : {1, 3, 255, 4097, 1'000'003}) {
        const std::vector<float> a = random_floats(count, 1);
        const std::vector<float> b = random_floats(count, 2);
        const DeviceVector from = on_device(a);
        const DeviceVector to = on_device(b);
        math_->add_scaled(to.span(), from.span(), 0.3F);
        std::vector<float> wanted(a.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
            const volatile float product = 0.3F * a[i];  // rounded, whatever the compiler may fuse
            wanted[i] = b[i] + product;
        }
        EXPECT_EQ(to.values(), wanted) << count;
        math_->scale_into(to.span(), from.span(), -1.7F);
        for (std::size_t i = 0; i < a.size(); ++i) {
            wanted[i] = -1.7F * a[i];
        }
        EXPECT_EQ(to.values(), wanted) << count;
        math_->scale_into(to.span(), to.span(), 0.5F);
        for (float& value : wanted) {
            value *= 0.5F;
        }
        EXPECT_EQ(to.values(), wanted) << "in place, " << count;
    }
}

TEST_P(MathOnDevice, PiecesThatStartAnywhere) {
    const std::vector<float> a = random_floats(1000, 1);
    const DeviceVector all = on_device(a);
    double wanted = 0;
    for (const auto& [begin, count] : {std::pair{1, 7}, {13, 500}, {0, 1000}, {999, 1}, {5, 0}}) {
        math_->add_squares(
            all.span().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
        for (int i = begin; i < begin + count; ++i) {
            const double value = static_cast<double>(a[static_cast<std::size_t>(i)]);
            wanted += value * value;
        }
    }
    EXPECT_NEAR(math_->take_squares(), wanted, 1e-9 * wanted);
    EXPECT_EQ(math_->take_squares(), 0) << "taken already";
}

TEST_P(MathOnDevice, SumsOfSquaresRepeatAndOverflowOnlyBeyondDouble) {
    const std::vector<float> values = random_floats(3'000'001, 3);
    const DeviceVector vector = on_device(values);
    const double exact = std::accumulate(
        values.begin(), values.end(), 0.0,
        [](double sum, float v) { return sum + static_cast<double>(v) * static_cast<double>(v); });
    const auto sum = [&] {
        math_->add_squares(vector.span());
        return math_->take_squares();
    };
    const double first = sum();
    EXPECT_NEAR(first, exact, 1e-6 * exact);
    EXPECT_EQ(sum(), first);
    const DeviceVector large = on_device(std::vector<float>(1000, 1e30F));
    math_->add_squares(large.span());
    EXPECT_NEAR(math_->take_squares(), 1e63, 1e57);
}

TEST_P(MathOnDevice, NaNAndInfinityShow) {
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> values = random_floats(5000, 3);
        values[4321] = odd;
        const DeviceVector vector = on_device(values);
        math_->add_squares(vector.span());
        EXPECT_FALSE(std::isfinite(math_->take_squares()));
        math_->add_squares(vector.span().first(4321));
        EXPECT_TRUE(std::isfinite(math_->take_squares())) << "the sum before must be gone";
    }
}

}  // namespace
}  // namespace cohort::test
