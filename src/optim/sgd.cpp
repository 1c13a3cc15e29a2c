#include <cmath>

#include "optim/range_optimizer.hpp"

namespace cohort {
namespace {

/// Heavy ball integrated over the fraction f; the formulas stand at Optimizer.
class Sgd final : public RangeOptimizer {
public:
    Sgd(const OptimizerOptions& options, std::int64_t size, Device& device, Stream& stream,
        std::unique_ptr<Updates> updates)
        : RangeOptimizer(options, size, device, stream, std::move(updates)),
          momentum_(options.momentum),
          velocity_(add_slot("momentum")) {}

    void set_momentum(double momentum) override {
        check_decay_rate("momentum", momentum);
        momentum_ = momentum;
    }

    [[nodiscard]] double momentum() const noexcept override { return momentum_; }

    [[nodiscard]] std::vector<OptimizerScalar> scalars() const override {
        return {{"momentum", momentum_}};
    }

    void set_scalar(std::string_view name, double value) override {
        if (name != "momentum") {
            fail_unknown_scalar(name);
        }
        set_momentum(value);
    }

protected:
    void set_factors(double fraction, double lr) override;

    void run(const UpdatePiece& piece) override {
        updates().sgd(factors_, decay(), piece, velocity_);
    }

    void set_delta_factors(double fraction, double lr) override;

    void run_delta(const UpdatePiece& piece) override {
        updates().sgd_delta(delta_factors_, piece, velocity_);
    }

private:
    double momentum_;
    float* velocity_;  // normalised, [size]
    kernels::SgdFactors factors_;
    kernels::DeltaFactors delta_factors_;
};

/// 1 - m^f without cancellation for small f.
double share_of_new(double m, double fraction) {
    return m == 0 ? 1 : -std::expm1(fraction * std::log(m));
}

void Sgd::set_factors(double fraction, double lr) {
    using Rule = kernels::SgdFactors::Rule;
    const bool nesterov = options().nesterov;
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
    factors_.lambda = static_cast<float>(options().weight_decay);
    factors_.keep_theta = static_cast<float>(keep_parameters(fraction, lr));
}

void Sgd::set_delta_factors(double fraction, double lr) {
    const double take = lr > 0 ? share_of_new(momentum_, fraction) : 0;
    delta_factors_.keep = static_cast<float>(1 - take);
    delta_factors_.take =
        lr > 0 ? static_cast<float>(-take * (1 - momentum_) / (lr * fraction)) : 0;
}

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, std::int64_t size,
                                    Device& device, Stream& stream,
                                    std::unique_ptr<Updates> updates) {
    return std::make_unique<Sgd>(options, size, device, stream, std::move(updates));
}

}  // namespace cohort
