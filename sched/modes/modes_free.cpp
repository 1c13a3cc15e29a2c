#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sched/modes/mode_table.hpp"
#include "sched/modes/policy_base.hpp"

// Modes in which every push is an update of its own.
namespace cohort {
namespace {

constexpr double kSspClockBound = 3;    ///< ssp, in pushes
constexpr double kCompensation = 0.04;  ///< dcasgd, Zheng et al. 2017
constexpr double kLagBound = 2;         ///< saps, in reference batches; auto: at the start
constexpr double kLeastCosine = 0.01;   ///< zeno++: rho / gamma of its authors' runs
constexpr double kValidateEvery = 10;   ///< zeno++, in updates: of its authors' runs

SyncPlan asgd(const ModeRequest& request) {
    SyncPlan plan = cohorts_of_one(request);
    plan.published_unit = request.samples_of(1);
    return plan;
}

SyncPlan ssp(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.clock_bound = request.whole(0);
    return plan;
}

/// The step is eta / (lag + 1) whatever the size of the update.
double published_step(const FiredPush& push, const FiringSet& set) {
    return 1 / (set.fraction * static_cast<double>(push.lag_updates + 1));
}

SyncPlan dynsgd(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.weight = published_step;
    return plan;
}

SyncPlan adadelay(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.weight = [smoothness = request.values[0], growth = request.values[1]](
                      const FiredPush& push, const FiringSet& set) {
        return 1 / (smoothness +
                    growth * std::sqrt(static_cast<double>(set.version + push.lag_updates)));
    };
    return plan;
}

SyncPlan dcasgd(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.delay_compensation = request.values[0];
    return plan;
}

SyncPlan saps(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    const double bound = request.values[0];
    plan.lag_rule = {.bound = bound == kAutomatic ? kLagBound : bound,
                     .action = static_cast<SyncPlan::LagAction>(request.whole(1))};
    return plan;
}

/// saps with a bound that follows the noise of the gradient (docs/modes.md has the derivation).
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

std::unique_ptr<ModePolicy> saps_policy(Mode mode, const ModeSetting& setting) {
    if (mode.values.at(0) != kAutomatic) {
        return policy_of<PolicyBase>(std::move(mode), setting);
    }
    return policy_of<LagPolicy>(std::move(mode), setting);
}

/// Factor that gives a push the reference's length; 1 when one of them is zero, or without a
/// reference.
double as_long_as_reference(const FiredPush& push, const FiringSet& /*set*/) {
    const PushTicket& ticket = push.ticket;
    const bool both = ticket.reference_norm > 0 && ticket.gradient_norm > 0;
    return both ? ticket.reference_norm / ticket.gradient_norm : 1;
}

/// Zeno++'s score gamma <v, g> - rho |g|^2 >= -gamma epsilon, g as long as v: with epsilon = 0 a
/// bound of the cosine between them, rho / gamma.
SyncPlan zeno(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.validate_every = request.whole(1);
    plan.accept = [cosine = request.values[0]](const PushTicket& ticket) {
        return ticket.reference_dot >= cosine * ticket.gradient_norm * ticket.reference_norm;
    };
    plan.weight = as_long_as_reference;
    return plan;
}

}  // namespace

/// Ringmaster ASGD discards a gradient from R updates of delay on, R = max(1, ceil(sigma^2 /
/// epsilon)). Of a push of b samples sigma^2 is tr(Sigma)/b; with epsilon = |G|^2, the present
/// gradient, sigma^2/epsilon is phi/b. R - 1 updates of b samples may be applied meanwhile. Equally
/// fast workers lag by nearly one reference batch: a lower bound would interrupt all of them.
double lag_bound_of(double noise_scale, double batch, double reference_batch) {
    const double updates = std::max(1.0, std::ceil(noise_scale / batch));
    return std::max(1.0, (updates - 1) * batch / reference_batch);
}

std::vector<ModeEntry> free_modes() {
    return {
        {.name = "asgd", .parameters = {}, .plan = asgd},
        {.name = "ssp", .parameters = {{.name = "S", .fallback = kSspClockBound}}, .plan = ssp},
        {.name = "dynsgd", .parameters = {}, .plan = dynsgd},
        {.name = "adadelay",
         .parameters = {{.name = "L", .least = 1e-6, .fallback = 1, .whole = false},
                        {.name = "C", .fallback = 0, .whole = false}},
         .plan = adadelay,
         .separator = ','},
        {.name = "dcasgd",
         .parameters = {{.name = "LAMBDA", .fallback = kCompensation, .whole = false}},
         .plan = dcasgd},
        {.name = "saps",
         .parameters = {{.name = "D", .fallback = kLagBound, .whole = false, .automatic = true},
                        {.name = "ACTION",
                         .fallback = 0,
                         .words = {"refresh", "drop", "discount"}}},  // as SyncPlan::LagAction
         .plan = saps,
         .policy = saps_policy},
        {.name = "zeno++",
         .parameters = {{.name = "COSINE",
                         .least = -1,
                         .most = ModeParameter::Most::kOne,
                         .fallback = kLeastCosine,
                         .whole = false},
                        {.name = "EVERY", .least = 1, .fallback = kValidateEvery}},
         .plan = zeno},
    };
}

}  // namespace cohort
