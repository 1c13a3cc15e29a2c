// The optimizers: the factors of an update from its fraction and learning rate. The rules stand at
// Optimizer.
#include <cmath>

#include "layers/optim/range_optimizer.hpp"

namespace cohort {
namespace {

/// 1 - m^f without cancellation for small f.
double share_of_new(double m, double fraction) {
    return m == 0 ? 1 : -std::expm1(fraction * std::log(m));
}

/// Heavy ball integrated over the fraction f.
class Sgd final : public RangeOptimizer {
public:
    using RangeOptimizer::RangeOptimizer;

    [[nodiscard]] LookAhead look_ahead() const override {
        return {.first = {velocity_, floats()}, .momentum = momentum_};
    }

protected:
    void set_factors(double fraction, double lr) override {
        using Rule = kernels::SgdFactors::Rule;
        const bool nesterov = options_.nesterov;
        const double m = momentum_;
        const double scale = lr / (1 - m);
        const bool unit = fraction == 1;
        const double take = unit ? 1 - m : share_of_new(m, fraction);
        // u' - u = take (g - u), so the step is linear in g and the old u.
        const double back = take * (nesterov ? m * m : m) / (1 - m);
        factors_.rule = !unit ? Rule::kFractional : (nesterov ? Rule::kUnitNesterov : Rule::kUnit);
        factors_.keep_u = static_cast<float>(unit ? m : 1 - take);
        factors_.take_g = static_cast<float>(take);
        factors_.step = static_cast<float>(scale);
        factors_.step_g = static_cast<float>(scale * (fraction - back));
        factors_.step_u = static_cast<float>(scale * back);
        factors_.lambda = static_cast<float>(options_.weight_decay);
        factors_.keep_theta = static_cast<float>(keep_parameters(fraction, lr));
    }
    void run(const UpdatePiece& piece) override {
        updates_->sgd(factors_, decay(), piece, velocity_);
    }

    void set_delta_factors(double fraction, double lr) override {
        const double take = lr > 0 ? share_of_new(momentum_, fraction) : 0;
        delta_factors_.keep = static_cast<float>(1 - take);
        delta_factors_.take =
            lr > 0 ? static_cast<float>(-take * (1 - momentum_) / (lr * fraction)) : 0;
    }
    void run_delta(const UpdatePiece& piece) override {
        updates_->sgd_delta(delta_factors_, piece, velocity_);
    }

private:
    double& momentum_ = add_scalar("momentum", options_.momentum);
    float* velocity_ = add_slot("momentum");  // normalised, [size]
    kernels::SgdFactors factors_;
    kernels::DeltaFactors delta_factors_;
};

/// AdamW over fractions of a reference batch.
class AdamW final : public RangeOptimizer {
public:
    using RangeOptimizer::RangeOptimizer;

    [[nodiscard]] LookAhead look_ahead() const override {
        if (second_product_ == 1) {  // no reference batch is complete
            return {};
        }
        return {.first = {first_, floats()},
                .second = {second_, floats()},
                .momentum = beta1_,
                .first_scale = 1 / (1 - first_product_),
                .root_scale = 1 / std::sqrt(1 - second_product_),
                .epsilon = options_.epsilon};
    }

protected:
    void set_factors(double fraction, double lr) override {
        const double keep_theta = keep_parameters(fraction, lr);
        const double keep = fraction == 1 ? beta1_ : std::pow(beta1_, fraction);
        first_product_ *= keep;
        accumulate(fraction);
        const bool first = factors_.rule == kernels::AdamFactors::Rule::kFirst;
        const double root_scale = first ? 1 / filled_ : 1 / std::sqrt(1 - second_product_);
        factors_.keep_m = static_cast<float>(keep);
        factors_.take_g = static_cast<float>(1 - keep);
        factors_.keep_v = static_cast<float>(options_.beta2);
        factors_.take_v = static_cast<float>(1 - options_.beta2);
        factors_.root_scale = static_cast<float>(root_scale);
        factors_.mean_scale = static_cast<float>(1 / (1 - first_product_));
        factors_.epsilon = static_cast<float>(options_.epsilon);
        factors_.step = static_cast<float>(lr * fraction / (1 - first_product_));
        factors_.lambda = static_cast<float>(options_.weight_decay);
        factors_.keep_theta = static_cast<float>(keep_theta);
    }
    void run(const UpdatePiece& piece) override {
        updates_->adamw(factors_, decay(), piece, first_, second_, partial_);
    }

    void set_delta_factors(double /*fraction*/, double /*lr*/) override {}
    void run_delta(const UpdatePiece& piece) override { updates_->add_delta(piece); }

private:
    /// Moves the sum of fractions on and picks the rule that fills the second moment.
    void accumulate(double fraction) {
        using Rule = kernels::AdamFactors::Rule;
        constexpr double kRounding = 1e-9;  // ten tenths are a whole
        const double total = filled_ + fraction;
        const double whole = std::floor(total + kRounding);
        if (whole < 1) {
            factors_.rule = second_product_ == 1 ? Rule::kFirst : Rule::kAccumulate;
            factors_.add = static_cast<float>(fraction);
            filled_ = total;
            return;
        }
        const double rest = total - whole > kRounding ? total - whole : 0;
        const double repeated = std::pow(options_.beta2, whole - 1);
        factors_.rule = filled_ == 0 && rest == 0 && whole == 1 ? Rule::kWhole : Rule::kComplete;
        factors_.finish = static_cast<float>(1 - filled_);
        factors_.keep_repeat = static_cast<float>(repeated);
        factors_.take_repeat = static_cast<float>(1 - repeated);
        factors_.start = static_cast<float>(rest);
        second_product_ *= options_.beta2 * repeated;
        filled_ = rest;
    }

    double& beta1_ = add_scalar("beta1", options_.beta1);
    /// Products of beta1^f over all updates, and of beta2 over all complete reference batches.
    double& first_product_ = add_scalar("first_moment_weight", 1);
    double& second_product_ = add_scalar("second_moment_weight", 1);
    double& filled_ = add_scalar("partial_fraction", 0);  // fraction in partial_, in [0, 1)
    float* first_ = add_slot("first_moment");
    float* second_ = add_slot("second_moment");
    float* partial_ = add_slot("partial_gradient");
    kernels::AdamFactors factors_;
};

}  // namespace

std::unique_ptr<Optimizer> make_range_optimizer(const OptimizerOptions& options, std::int64_t size,
                                                Device& device, Stream& stream,
                                                std::unique_ptr<Updates> updates) {
    if (options.kind == OptimizerKind::kSgd) {
        return std::make_unique<Sgd>(options, size, device, stream, std::move(updates));
    }
    return std::make_unique<AdamW>(options, size, device, stream, std::move(updates));
}

}  // namespace cohort
