#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sched/modes/policies.hpp"
#include "sched/modes/policy_base.hpp"

// saps with a bound that follows the noise of the gradient (docs/modes.md has the derivation).
namespace cohort {

/// Ringmaster ASGD discards a gradient from R updates of delay on, R = max(1, ceil(sigma^2 /
/// epsilon)). Of a push of b samples sigma^2 is tr(Sigma)/b; with epsilon = |G|^2, the present
/// gradient, sigma^2/epsilon is phi/b. R - 1 updates of b samples may be applied meanwhile. Equally
/// fast workers lag by nearly one reference batch: a lower bound would interrupt all of them.
double lag_bound_of(double noise_scale, double batch, double reference_batch) {
    const double updates = std::max(1.0, std::ceil(noise_scale / batch));
    return std::max(1.0, (updates - 1) * batch / reference_batch);
}

namespace {

class LagPolicy final : public PolicyBase {
public:
    LagPolicy(Mode mode, const ModeSetting& setting)
        : PolicyBase(std::move(mode), setting),
          bound_(make_plan(this->mode(), this->setting()).lag_rule->bound) {}

    [[nodiscard]] bool wants_gradients() const override { return true; }

protected:
    Decision adapt(const Telemetry& telemetry) override {
        noise_scale_ = telemetry.load == nullptr ? 0 : telemetry.load->gradients.noise_scale;
        return PolicyBase::adapt(telemetry);
    }
    Decision remake(std::string reason) override {
        Decision made = PolicyBase::remake(std::move(reason));
        made.plan->lag_rule->bound = bound_;
        return made;
    }
    /// The bound differs by a fifth or more: the noise scale is not known more precisely.
    [[nodiscard]] bool wishes() const override {
        constexpr double kApart = 1.2;
        const double wanted = wanted_bound();
        return noise_scale_ > 0 && (wanted > kApart * bound_ || bound_ > kApart * wanted);
    }
    Decision change() override {
        bound_ = wanted_bound();
        return remake(fmt::format("noise scale {:.0f} samples: lag bound {:.2f} reference batches",
                                  noise_scale_, bound_));
    }

private:
    [[nodiscard]] double wanted_bound() const {
        return lag_bound_of(noise_scale_, static_cast<double>(setting().batch),
                            static_cast<double>(reference_batch_of(setting())));
    }

    double bound_;  ///< in force
    double noise_scale_ = 0;
};

}  // namespace

std::unique_ptr<ModePolicy> make_saps_policy(Mode mode, const ModeSetting& setting) {
    if (mode.values.at(0) != kAutomatic) {
        return std::make_unique<PolicyBase>(std::move(mode), setting);
    }
    return std::make_unique<LagPolicy>(std::move(mode), setting);
}

}  // namespace cohort
