#include "sched/modes/adaptive/policy_advised.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

constexpr double kSameLoad =
    0.03;  ///< relative difference of a plan's timed throughput up to which the load is the same

/// What an adviser advises is not yet what is wanted.
ModeSetting unrecorded(ModeSetting setting) {
    setting.chooser.record_rates = false;
    setting.admits = {};
    return setting;
}

}  // namespace

AdvisedPolicy::AdvisedPolicy(Mode mode, const Mode& adviser, const ModeSetting& setting)
    : AdaptivePolicy(std::move(mode), setting),
      adviser_(make_policy(adviser, unrecorded(setting))) {
}

Decision AdvisedPolicy::start() {
    Decision first = adviser_->start();
    advised_ = option_of(*first.plan, first.batches);
    follow(advised_);
    return first;
}

void AdvisedPolicy::switched(const SwitchReport& report) {
    AdaptivePolicy::switched(report);
    adviser_->switched(report);
}

double AdvisedPolicy::healthy_samples_s() const {
    return static_cast<double>(setting().batch * std::ssize(live())) / std::ranges::min(own_s());
}

std::vector<double> AdvisedPolicy::own_s() const {
    std::vector<double> seconds;
    std::ranges::transform(live(), std::back_inserter(seconds), [this](int worker) {
        return ranking().load().own_s(static_cast<std::size_t>(worker), setting().batch);
    });
    return seconds;
}

RateFeatures AdvisedPolicy::features_of(const RatedPlan& plan, const Telemetry& telemetry) const {
    const auto workers = static_cast<double>(live().size());
    const auto logarithm = [](double value) { return value > 0 ? std::log10(value) / 10 : 0; };
    double waited = 0;
    for (const CohortSpec& cohort : plan.option.plan.cohorts) {
        waited = std::max(waited, static_cast<double>(cohort.quorum));
    }
    RateFeatures x;
    x[RateFeatures::kOne] = 1;
    x[RateFeatures::kTimedPace] = std::log(plan.timing.samples_s / healthy_samples_s());
    x[RateFeatures::kSampleWorth] =
        std::log(plan.candidate.staleness_efficiency * plan.candidate.batch_efficiency);
    x.set_times(own_s());
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
        std::log1p(telemetry.load->gradients.noise_scale / ranking().rater().reference_batch());
    return x;
}

/// The rate of the plan in force: counted samples per second times the value of a sample by batches
/// and staleness.
std::optional<RateWindow> AdvisedPolicy::measure(const Telemetry& telemetry) {
    const double seconds = telemetry.seconds - std::exchange(last_s_, telemetry.seconds);
    const auto samples = static_cast<double>(
        telemetry.samples_applied - std::exchange(last_samples_, telemetry.samples_applied));
    const double timed_samples_s = ranking().kept() ? ranking().kept()->timing.samples_s : 0;
    const double before = std::exchange(timed_samples_s_, timed_samples_s);
    if (timed_samples_s == 0 || std::abs(timed_samples_s - before) > kSameLoad * before) {
        restart_window();  // another plan, or another load
        return std::nullopt;
    }
    window_s_ += seconds;
    window_samples_ += samples;
    predicted_ += seconds * timed_samples_s;
    if (predicted_ < kWindowRounds * ranking().rater().reference_batch() || window_samples_ <= 0) {
        return std::nullopt;
    }
    const Candidate& plan = ranking().kept()->candidate;
    const double rate = window_samples_ / window_s_ * plan.batch_efficiency *
                        plan.staleness_efficiency / healthy_samples_s();
    restart_window();
    windows_.push_back({.seconds = telemetry.seconds,
                        .samples = telemetry.samples_applied,
                        .plan = plan.plan,
                        .features = features_of(*ranking().kept(), telemetry),
                        .log_rate = std::log(rate)});
    return windows_.back();
}

/// The adviser may have measured the same windows: they are not reported twice.
std::vector<RateWindow> AdvisedPolicy::take_windows() {
    (void)adviser_->take_windows();
    return std::exchange(windows_, {});
}

Decision AdvisedPolicy::ask_adviser(const Telemetry& telemetry) {
    Decision advice = adviser_->decide(telemetry);
    if (advice.plan || !advice.batches.empty()) {
        advised_ = option_of(advice.plan ? *advice.plan : advised_.plan,
                             advice.batches.empty() ? advised_.batches : advice.batches);
    }
    return advice;
}

/// Passes the adviser's decision on unchanged.
Decision AdvisedPolicy::adapt(const Telemetry& telemetry) {
    Decision advice = ask_adviser(telemetry);
    if (telemetry.load != nullptr && observe(telemetry)) {
        (void)measure(telemetry);
    }
    if (!follows(advised_)) {
        follow(advised_);
    }
    return advice;
}

Decision AdvisedPolicy::regroup(const Telemetry& telemetry, std::string /*reason*/) {
    restart_window();
    Decision advice = ask_adviser(telemetry);
    forget_gone();
    follow(advised_);
    return advice;
}

std::unique_ptr<ModePolicy> make_recording_policy(Mode mode, const ModeSetting& setting) {
    Mode advised = mode;
    return std::make_unique<AdvisedPolicy>(std::move(mode), std::move(advised), setting);
}

}  // namespace cohort
