#include <cmath>

#include "optim/range_optimizer.hpp"

namespace cohort {
namespace {

/// AdamW over fractions of a reference batch; the rules stand at Optimizer.
class AdamW final : public RangeOptimizer {
public:
    AdamW(const OptimizerOptions& options, std::int64_t size, Device& device, Stream& stream,
          std::unique_ptr<Updates> updates)
        : RangeOptimizer(options, size, device, stream, std::move(updates)),
          beta1_(options.beta1),
          first_(add_slot("first_moment")),
          second_(add_slot("second_moment")),
          partial_(add_slot("partial_gradient")) {}

    void set_momentum(double momentum) override {
        check_decay_rate("beta1", momentum);
        beta1_ = momentum;
    }
    [[nodiscard]] double momentum() const noexcept override { return beta1_; }

    [[nodiscard]] std::vector<OptimizerScalar> scalars() const override {
        return {{"beta1", beta1_},
                {"first_moment_weight", first_product_},
                {"second_moment_weight", second_product_},
                {"partial_fraction", filled_}};
    }

    void set_scalar(std::string_view name, double value) override;

protected:
    void set_factors(double fraction, double lr) override;

    void run(const UpdatePiece& piece) override {
        updates().adamw(factors_, decay(), piece, first_, second_, partial_);
    }

    void set_delta_factors(double /*fraction*/, double /*lr*/) override {}

    void run_delta(const UpdatePiece& piece) override { updates().add_delta(piece); }

private:
    void accumulate(double fraction);

    double beta1_;
    double first_product_ = 1;   // of beta1^f over all updates
    double second_product_ = 1;  // of beta2 over all complete reference batches
    double filled_ = 0;          // fraction in partial_, in [0, 1)
    float* first_;
    float* second_;
    float* partial_;
    kernels::AdamFactors factors_;
};

void AdamW::set_scalar(std::string_view name, double value) {
    if (name == "beta1") {
        set_momentum(value);
    } else if (name == "first_moment_weight") {
        first_product_ = value;
    } else if (name == "second_moment_weight") {
        second_product_ = value;
    } else if (name == "partial_fraction") {
        filled_ = value;
    } else {
        fail_unknown_scalar(name);
    }
}

/// Moves the sum of fractions on and picks the rule that fills the second moment.
void AdamW::accumulate(double fraction) {
    using Rule = kernels::AdamFactors::Rule;
    constexpr double kRounding = 1e-9;  // ten tenths are a whole
    const double beta2 = options().beta2;
    const double total = filled_ + fraction;
    const double whole = std::floor(total + kRounding);
    if (whole < 1) {
        factors_.rule = second_product_ == 1 ? Rule::kFirst : Rule::kAccumulate;
        factors_.add = static_cast<float>(fraction);
        filled_ = total;
        return;
    }
    const double rest = total - whole > kRounding ? total - whole : 0;
    const double repeated = std::pow(beta2, whole - 1);
    factors_.rule = filled_ == 0 && rest == 0 && whole == 1 ? Rule::kWhole : Rule::kComplete;
    factors_.finish = static_cast<float>(1 - filled_);
    factors_.keep_repeat = static_cast<float>(repeated);
    factors_.take_repeat = static_cast<float>(1 - repeated);
    factors_.start = static_cast<float>(rest);
    second_product_ *= beta2 * repeated;
    filled_ = rest;
}

void AdamW::set_factors(double fraction, double lr) {
    const double keep_theta = keep_parameters(fraction, lr);
    const double keep = fraction == 1 ? beta1_ : std::pow(beta1_, fraction);
    first_product_ *= keep;
    accumulate(fraction);
    const bool first = factors_.rule == kernels::AdamFactors::Rule::kFirst;
    const double root_scale = first ? 1 / filled_ : 1 / std::sqrt(1 - second_product_);
    factors_.keep_m = static_cast<float>(keep);
    factors_.take_g = static_cast<float>(1 - keep);
    factors_.keep_v = static_cast<float>(options().beta2);
    factors_.take_v = static_cast<float>(1 - options().beta2);
    factors_.root_scale = static_cast<float>(root_scale);
    factors_.epsilon = static_cast<float>(options().epsilon);
    factors_.step = static_cast<float>(lr * fraction / (1 - first_product_));
    factors_.lambda = static_cast<float>(options().weight_decay);
    factors_.keep_theta = static_cast<float>(keep_theta);
}

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options, std::int64_t size,
                                      Device& device, Stream& stream,
                                      std::unique_ptr<Updates> updates) {
    return std::make_unique<AdamW>(options, size, device, stream, std::move(updates));
}

}  // namespace cohort
