#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "sched/modes/adaptive/policy_advised.hpp"

// STAR's learned chooser: a regressor predicts the progress rate of every plan. It learns from the
// measured rates of the plans in force, and star-h-exact decides as long as the regressor's error
// is larger than that of the timing model on which the heuristic relies.
namespace cohort {
namespace {

constexpr int kLeastWindows = 4;  ///< measurements before the regressor may lead
constexpr double kErrorWeight = 0.2;
constexpr double kTakesOver = 0.95;  ///< times the heuristic's error
constexpr double kHandsBack = 1.05;
constexpr int kLeastLead = 64;  ///< measurements for which a new leader stays

std::string heuristic_for(const ModeSetting& setting) {
    return setting.architecture == Architecture::kRing ? "star-h" : "star-h-exact";
}

class StarMlPolicy final : public AdvisedPolicy {
public:
    StarMlPolicy(Mode mode, const ModeSetting& setting)
        : AdvisedPolicy(std::move(mode), parse_mode(heuristic_for(setting), setting), setting),
          regressor_(setting.chooser.rate_weights
                         ? RateRegressor::weights_of(*setting.chooser.rate_weights)
                         : RateRegressor::start_weights()) {}

    /// The heuristic does not ask who is late.
    [[nodiscard]] std::optional<double> wake_at(const ActiveIterations& running) const override {
        return leads_ ? own_wake_at(running) : std::nullopt;
    }

protected:
    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override;
    void value(RatedPlan& plan, const Telemetry& telemetry) const override;

private:
    void judge(const RateWindow& window);
    [[nodiscard]] bool hands_over();
    [[nodiscard]] Decision follow_heuristic(Decision advice);
    [[nodiscard]] Decision heed(Decision advice, const Telemetry& telemetry);
    [[nodiscard]] Decision begin_lead(const Telemetry& telemetry);

    RateRegressor regressor_;
    bool leads_ = false;  ///< the regressor leads
    int windows_ = 0;
    int next_change_ = kLeastWindows;  ///< window from which on the lead may change
    std::int64_t settles_at_ = 0;      ///< samples, when the heuristic's plan must be in force
    double regressor_error_ = 0;       ///< of logarithms, recent
    double heuristic_error_ = 0;
};

void StarMlPolicy::value(RatedPlan& plan, const Telemetry& telemetry) const {
    const double rate = std::exp(regressor_.predict(features_of(plan, telemetry)));
    plan.candidate.rate = rate * healthy_samples_s();
    plan.candidate.samples_s = plan.candidate.rate / (plan.candidate.batch_efficiency *
                                                      plan.candidate.staleness_efficiency);
}

/// Judges the regressor by a window before it learns from that window.
void StarMlPolicy::judge(const RateWindow& window) {
    const RateFeatures& features = window.features;
    const auto follow = [&](double& mean, double error) {
        mean = windows_ == 0 ? error : mean + kErrorWeight * (error - mean);
    };
    follow(regressor_error_, std::abs(regressor_.predict(features) - window.log_rate));
    follow(heuristic_error_, std::abs(features[RateFeatures::kTimedPace] +
                                      features[RateFeatures::kSampleWorth] - window.log_rate));
    regressor_.learn(features, window.log_rate);
    ++windows_;
}

/// Changes the lead if it is time to. @return whether the lead has changed
bool StarMlPolicy::hands_over() {
    const bool better = leads_ ? regressor_error_ > kHandsBack * heuristic_error_
                               : regressor_error_ < kTakesOver * heuristic_error_;
    if (!better || windows_ < next_change_) {
        return false;
    }
    leads_ = !leads_;
    next_change_ = windows_ + kLeastLead;
    return true;
}

Decision StarMlPolicy::follow_heuristic(Decision advice) {
    follow(advised());
    advice.plan = current().plan;
    advice.batches = current().batches;
    if (advice.record) {
        advice.record->chooser = mode().text;
    }
    return advice;
}

/// The plan in force stays at first; the heuristic may decide soon.
Decision StarMlPolicy::begin_lead(const Telemetry& telemetry) {
    Decision first = leads_ ? choose(telemetry) : Decision();
    const std::string errors =
        fmt::format("the regressor errs by {:.1f} %, the timing model by {:.1f} %",
                    100 * regressor_error_, 100 * heuristic_error_);
    const std::string why = fmt::format(
        "{} decides from now on: {}", leads_ ? "the regressor" : heuristic_for(setting()), errors);
    first.reason = first.reason.empty() ? why : why + "; " + first.reason;
    if (!first.record) {
        first.record = DecisionRecord{.chooser = mode().text};
    }
    first.record->reason = first.reason;
    settles_at_ = telemetry.samples_applied +
                  static_cast<std::int64_t>(kWindowRounds * ranking().rater().reference_batch());
    return first;
}

/// Carries out the heuristic's decision, also one from before it got the lead.
Decision StarMlPolicy::heed(Decision advice, const Telemetry& telemetry) {
    if (!advice.plan && telemetry.samples_applied >= settles_at_ && !follows(advised())) {
        advice = {
            .plan = advised().plan, .batches = {}, .reason = "as it has wanted since it decides"};
        advice.record = DecisionRecord{.chooser = mode().text, .reason = advice.reason};
    }
    const bool may = advice.plan && admitted(*advice.plan, 1);
    return may ? follow_heuristic(std::move(advice)) : Decision();
}

Decision StarMlPolicy::adapt(const Telemetry& telemetry) {
    if (telemetry.load == nullptr) {
        return {};
    }
    Decision advice = ask_adviser(telemetry);
    const bool known = observe(telemetry);
    const std::optional<RateWindow> window = known ? measure(telemetry) : std::nullopt;
    if (window) {
        judge(*window);
        rate_again(telemetry);
        if (hands_over()) {
            return begin_lead(telemetry);
        }
    }
    if (leads_) {
        return known ? choose(telemetry) : Decision();
    }
    return heed(std::move(advice), telemetry);
}

Decision StarMlPolicy::regroup(const Telemetry& telemetry, std::string reason) {
    restart_window();
    Decision advice = ask_adviser(telemetry);
    if (leads_) {
        return restart(telemetry, std::move(reason));
    }
    forget_gone();
    return follow_heuristic(std::move(advice));
}

}  // namespace

std::unique_ptr<ModePolicy> make_star_ml_policy(Mode mode, const ModeSetting& setting) {
    return std::make_unique<StarMlPolicy>(std::move(mode), setting);
}

}  // namespace cohort
