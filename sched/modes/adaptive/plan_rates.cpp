#include "sched/modes/adaptive/plan_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {

namespace {

/// The cost of staleness that the options name.
EfficiencyModel staleness_cost(const ChooserOptions& options) {
    return options.efficiency == EfficiencySource::kModel && options.coefficients
               ? EfficiencyModel(*options.coefficients)
               : EfficiencyModel();
}

constexpr double kRemembered = 50;  ///< measurements after which a measurement has faded to a third
constexpr double kLeastRatio = 0.5;
constexpr double kMostRatio = 1.5;

}  // namespace

PlanRater::PlanRater(const ModeSetting& setting)
    : job_(setting.job),
      reference_batch_(static_cast<double>(reference_batch_of(setting))),
      staleness_(staleness_cost(setting.chooser)) {
}

RatedPlan PlanRater::rate(PlanOption option, const LoadEstimate& load, const TimeDraws& draws,
                          const std::vector<std::int64_t>& begun, const GradientFacts& gradients,
                          double pace, bool in_force) const {
    RatedPlan rated{.option = std::move(option), .timing = {}, .candidate = {}};
    SyncPlan& plan = rated.option.plan;
    rated.timing = time_plan(plan, own_times_of(plan, rated.option.batches, load),
                             rated.option.batches, static_cast<std::int64_t>(reference_batch_),
                             draws, own_times_of(plan, begun, load));
    Candidate& candidate = rated.candidate;
    candidate.plan = in_force ? plan.name : rated.option.shape.name();
    candidate.samples_s = rated.timing.samples_s * pace;
    if (plan.lr_unit == SyncPlan::LrUnit::kAdaScale && gradients.noise_scale > 0) {
        candidate.batch_efficiency =
            batch_efficiency(gradients.noise_scale, reference_batch_,
                             rated.timing.samples_s * rated.timing.update_s);
    }
    const StalenessFeatures features = features_of(plan, rated.timing, gradients);
    ScaledEfficiency worth{.scale = plan.lr_scale};
    if (in_force) {
        worth.efficiency = staleness_.efficiency(features);
    } else {
        worth = staleness_.best_scale(features);
        plan.lr_scale = worth.scale;
        if (worth.scale != 1) {
            candidate.plan += fmt::format("@{}", worth.scale);
        }
        plan.name = candidate.plan;
    }
    candidate.staleness_efficiency = worth.efficiency;
    candidate.rate =
        candidate.samples_s * candidate.batch_efficiency * candidate.staleness_efficiency;
    return rated;
}

StalenessFeatures PlanRater::features_of(const SyncPlan& plan, const PlanTiming& timing,
                                         const GradientFacts& gradients) const {
    return {.mean_lag = timing.mean_lag,
            .max_lag = timing.max_lag,
            .lr_scale = plan.lr_scale,
            .momentum = job_.momentum,
            .look_ahead = plan.look_ahead,
            .step_curvature = gradients.curvature,
            .noise_ratio = gradients.noise_scale / reference_batch_,
            .learns = job_.flops_per_sample > 0};
}

void PaceRecord::went(bool waits, double seconds, double samples, double predicted_samples_s) {
    if (predicted_samples_s <= 0) {
        return;
    }
    samples_ += samples;
    predicted_ += predicted_samples_s * seconds;
    if (predicted_ < window_) {
        return;
    }
    ++windows_;
    Kind& kind = kinds_[waits ? 1 : 0];
    const double ratio = std::clamp(samples_ / predicted_, kLeastRatio, kMostRatio);
    const bool first = kind.window < 0;
    kind = {.ratio = first ? ratio : (of(waits) + ratio) / 2, .window = windows_};
    all_ += (ratio - all_) / 4;
    restart();
}

void PaceRecord::restart() {
    samples_ = 0;
    predicted_ = 0;
}

double PaceRecord::of(bool waits) const {
    const Kind& kind = kinds_[waits ? 1 : 0];
    const double age = (windows_ - kind.window) / kRemembered;
    return all_ + std::exp(-age) * (kind.ratio - all_);
}

}  // namespace cohort
