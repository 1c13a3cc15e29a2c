#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "policies.hpp"
#include "policy_adaptive.hpp"
#include "rate_regressor.hpp"

// STAR's learned chooser: a regressor predicts the progress rate of every plan. It learns from what
// the plans in force achieve, and star-h-exact decides as long as the regressor errs more than the
// timing model that the heuristic relies on.
namespace cohort {
namespace {

constexpr double kWindowRounds = 8;  ///< reference batches over which a rate is measured
constexpr int kLeastWindows = 4;     ///< measurements before the regressor may lead
constexpr double kErrorWeight = 0.2;
constexpr double kTakesOver = 0.95;  ///< times the heuristic's error
constexpr double kHandsBack = 1.05;
constexpr int kLeastLead = 16;  ///< measurements for which whoever got the lead keeps it

class StarMlPolicy final : public AdaptivePolicy {
public:
    StarMlPolicy(std::string mode, const ModeSetting& setting)
        : AdaptivePolicy(std::move(mode), setting) {}

    Decision start() override {
        heuristic_ = make_policy(heuristic_name(), setting());
        advised_ = *heuristic_->start().plan;
        return AdaptivePolicy::start();
    }

    /// The heuristic does not ask who is late.
    [[nodiscard]] std::optional<double> wake_at(const RunningIterations& running) const override {
        return leads_ ? AdaptivePolicy::wake_at(running) : std::nullopt;
    }

protected:
    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override;
    void value(RatedPlan& plan, const Telemetry& telemetry) const override;

private:
    [[nodiscard]] RateFeatures features_of(const RatedPlan& plan, const Telemetry& telemetry) const;
    [[nodiscard]] double healthy_samples_s() const;
    [[nodiscard]] std::string heuristic_name() const {
        return setting().architecture == Architecture::kRing ? "star-h" : "star-h-exact";
    }
    [[nodiscard]] bool measure(const Telemetry& telemetry);
    void judge(double log_rate, const RateFeatures& features);
    [[nodiscard]] bool hands_over();
    [[nodiscard]] Decision ask_heuristic(const Telemetry& telemetry);
    [[nodiscard]] Decision follow_heuristic(Decision advice, const Telemetry& telemetry);
    [[nodiscard]] Decision heed(Decision advice, const Telemetry& telemetry);
    [[nodiscard]] Decision begin_lead(const Telemetry& telemetry);
    void restart() { window_s_ = window_samples_ = predicted_ = 0; }

    RateRegressor regressor_;
    std::unique_ptr<ModePolicy> heuristic_;  ///< asked all the time
    SyncPlan advised_;                       ///< its last word
    bool leads_ = false;                     ///< the regressor
    int windows_ = 0;
    int next_change_ = kLeastWindows;  ///< of the lead, in windows
    std::int64_t settles_at_ = 0;      ///< samples, when the heuristic's plan must be in force
    double regressor_error_ = 0;       ///< of logarithms, recent
    double heuristic_error_ = 0;
    // The window under way.
    double window_s_ = 0;
    double window_samples_ = 0;
    double predicted_ = 0;
    double timed_samples_s_ = 0;  ///< during it
    double last_s_ = 0;
    std::int64_t last_samples_ = 0;
};

/// Rates are relative to that of all workers at the pace of the fastest.
double StarMlPolicy::healthy_samples_s() const {
    double least_s = 0;
    for (const int worker : live()) {
        const double own_s = load().own_s(static_cast<std::size_t>(worker), setting().batch);
        least_s = least_s == 0 ? own_s : std::min(least_s, own_s);
    }
    return static_cast<double>(setting().batch * static_cast<std::int64_t>(live().size())) /
           least_s;
}

RateFeatures StarMlPolicy::features_of(const RatedPlan& plan, const Telemetry& telemetry) const {
    const auto workers = static_cast<double>(live().size());
    const auto logarithm = [](double value) { return value > 0 ? std::log10(value) / 10 : 0; };
    std::vector<double> own_s;
    double waited = 0;
    for (const int worker : live()) {
        own_s.push_back(load().own_s(static_cast<std::size_t>(worker), setting().batch));
    }
    for (const CohortSpec& cohort : plan.option.plan.cohorts) {
        waited = std::max(waited, static_cast<double>(cohort.quorum));
    }
    RateFeatures x;
    x[RateFeatures::kOne] = 1;
    x[RateFeatures::kTimedPace] = std::log(plan.timing.samples_s / healthy_samples_s());
    x[RateFeatures::kSampleWorth] =
        std::log(plan.candidate.staleness_efficiency * plan.candidate.batch_efficiency);
    x.set_times(std::move(own_s));
    x[RateFeatures::kMeanLag] = plan.timing.mean_lag;
    x[RateFeatures::kMostLag] = std::min(plan.timing.max_lag, workers) / workers;
    x[RateFeatures::kWaitedFor] = waited / workers;
    x[RateFeatures::kCohorts] = static_cast<double>(plan.option.plan.cohorts.size()) / workers;
    x[RateFeatures::kBalanced] = plan.option.shape.balanced ? 1 : 0;
    x[RateFeatures::kParameters] = logarithm(setting().job.parameters);
    x[RateFeatures::kOperations] = logarithm(setting().job.flops_per_sample);
    x[RateFeatures::kLearningRate] = setting().job.learning_rate;
    x[RateFeatures::kProgress] =
        static_cast<double>(telemetry.samples_applied) /
        static_cast<double>(std::max<std::int64_t>(telemetry.budget_samples, 1));
    x[RateFeatures::kNoiseScale] =
        std::log1p(telemetry.load->gradients.noise_scale / rater().reference_batch());
    return x;
}

void StarMlPolicy::value(RatedPlan& plan, const Telemetry& telemetry) const {
    const double rate = std::exp(regressor_.predict(features_of(plan, telemetry)));
    plan.candidate.rate = rate * healthy_samples_s();
    plan.candidate.samples_s = plan.candidate.rate / (plan.candidate.batch_efficiency *
                                                      plan.candidate.staleness_efficiency);
}

/// What the plan in force achieved: samples per second as counted, each worth what batches and
/// staleness make of it. @return something was learned
bool StarMlPolicy::measure(const Telemetry& telemetry) {
    const double seconds = telemetry.seconds - std::exchange(last_s_, telemetry.seconds);
    const auto samples = static_cast<double>(
        telemetry.samples_applied - std::exchange(last_samples_, telemetry.samples_applied));
    const double timed_samples_s = kept() ? kept()->timing.samples_s : 0;
    if (std::exchange(timed_samples_s_, timed_samples_s) != timed_samples_s ||
        timed_samples_s == 0) {
        restart();  // another plan, or another load
        return false;
    }
    window_s_ += seconds;
    window_samples_ += samples;
    predicted_ += seconds * timed_samples_s;
    if (predicted_ < kWindowRounds * rater().reference_batch() || window_samples_ <= 0) {
        return false;
    }
    const Candidate& plan = kept()->candidate;
    const double rate = window_samples_ / window_s_ * plan.batch_efficiency *
                        plan.staleness_efficiency / healthy_samples_s();
    judge(std::log(rate), features_of(*kept(), telemetry));
    restart();
    return true;
}

/// Before it learns: what it did not know is what it is judged by.
void StarMlPolicy::judge(double log_rate, const RateFeatures& features) {
    const auto follow = [&](double& mean, double error) {
        mean = windows_ == 0 ? error : mean + kErrorWeight * (error - mean);
    };
    follow(regressor_error_, std::abs(regressor_.predict(features) - log_rate));
    follow(heuristic_error_, std::abs(features[RateFeatures::kTimedPace] +
                                      features[RateFeatures::kSampleWorth] - log_rate));
    regressor_.learn(features, log_rate);
    ++windows_;
}

/// Whether the lead changes now; then it has changed.
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

/// Whoever leads, the heuristic follows what happens: when it gets the lead it knows what it wants.
Decision StarMlPolicy::ask_heuristic(const Telemetry& telemetry) {
    Decision advice = heuristic_->decide(telemetry);
    if (advice.plan) {
        advised_ = *advice.plan;
    }
    return advice;
}

Decision StarMlPolicy::follow_heuristic(Decision advice, const Telemetry& telemetry) {
    follow(advised_, telemetry.seconds);
    advice.plan = current().plan;
    advice.batches = current().batches;
    if (advice.record) {
        advice.record->chooser = mode();
    }
    return advice;
}

/// The plan in force stays; the heuristic may be about to change its mind.
Decision StarMlPolicy::begin_lead(const Telemetry& telemetry) {
    Decision first = leads_ ? choose(telemetry) : Decision();
    const std::string errors =
        fmt::format("the regressor errs by {:.1f} %, the timing model by {:.1f} %",
                    100 * regressor_error_, 100 * heuristic_error_);
    const std::string why = fmt::format("{} decides from now on: {}",
                                        leads_ ? "the regressor" : heuristic_name(), errors);
    first.reason = first.reason.empty() ? why : why + "; " + first.reason;
    if (!first.record) {
        first.record = DecisionRecord{.chooser = mode()};
    }
    first.record->reason = first.reason;
    settles_at_ = telemetry.samples_applied +
                  static_cast<std::int64_t>(kWindowRounds * rater().reference_batch());
    return first;
}

/// Its word counts, also one from before it got the lead.
Decision StarMlPolicy::heed(Decision advice, const Telemetry& telemetry) {
    if (!advice.plan && telemetry.samples_applied >= settles_at_ && !follows(advised_)) {
        advice = {.plan = advised_, .batches = {}, .reason = "as it has wanted since it decides"};
        advice.record = DecisionRecord{.chooser = mode(), .reason = advice.reason};
    }
    return advice.plan ? follow_heuristic(std::move(advice), telemetry) : Decision();
}

Decision StarMlPolicy::adapt(const Telemetry& telemetry) {
    if (telemetry.load == nullptr) {
        return {};
    }
    Decision advice = ask_heuristic(telemetry);
    const bool known = observe(telemetry);
    if (known && measure(telemetry)) {
        rate_anew(telemetry);
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
    restart();
    Decision advice = ask_heuristic(telemetry);
    if (leads_) {
        return AdaptivePolicy::regroup(telemetry, std::move(reason));
    }
    forget_gone();
    return follow_heuristic(std::move(advice), telemetry);
}

}  // namespace

std::unique_ptr<ModePolicy> make_star_ml_policy(std::string mode, const ModeSetting& setting,
                                                const std::vector<double>& /*values*/) {
    return std::make_unique<StarMlPolicy>(std::move(mode), setting);
}

}  // namespace cohort
