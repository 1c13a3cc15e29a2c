#include "policy_adaptive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "policies.hpp"

// Looking, rating and choosing of the chooser `adaptive`.
namespace cohort {
namespace {

constexpr double kSameLoad = 0.015;        ///< relative change of times that needs no new rates
constexpr double kSameGradients = 0.1;     ///< the same for what is known of gradients
constexpr std::int64_t kPaceRounds = 8;    ///< reference batches over which a pace is measured
constexpr double kLeastLife = 20;          ///< iterations that a change should be good for
constexpr double kMostLost = 0.5;          ///< share of a plan's rate that its first round may cost
constexpr std::int64_t kOftenEnough = 64;  ///< records of each worker without a new rating
constexpr int kHorizon = 3;                ///< iterations that forecasts are asked for

/// Stragglers that have lasted for long last for long: at least as long again as the youngest has,
/// and as long as they used to.
double expected_life_s(const StragglerDetector& detector) {
    double youngest_s = 0;
    bool any = false;
    for (const auto& episode : detector.open()) {
        if (episode && !episode->by_lag) {
            youngest_s = any ? std::min(youngest_s, episode->duration_s()) : episode->duration_s();
            any = true;
        }
    }
    return any ? std::max(detector.mean_duration_s() - youngest_s, youngest_s) : 0;
}

/// Samples that two ways of going on hand out differently.
std::int64_t distance(const PlanOption& a, const PlanOption& b) {
    std::int64_t sum = a.shape.mode == b.shape.mode ? 0 : std::int64_t{1} << 32;
    for (std::size_t i = 0; i < a.batches.size(); ++i) {
        sum += std::abs(a.batches[i] - b.batches[i]);
    }
    return sum;
}

bool same_members(const SyncPlan& a, const SyncPlan& b) {
    return std::equal(a.cohorts.begin(), a.cohorts.end(), b.cohorts.begin(), b.cohorts.end(),
                      [](const CohortSpec& x, const CohortSpec& y) {
                          return x.members == y.members && x.riders == y.riders &&
                                 x.quorum == y.quorum;
                      });
}

/// Nobody could tell them apart.
bool same_way(const PlanOption& a, const PlanOption& b) {
    return a.batches == b.batches && same_members(a.plan, b.plan) && a.plan.late == b.plan.late &&
           a.plan.lag_rule.has_value() == b.plan.lag_rule.has_value();
}

}  // namespace

AdaptivePolicy::AdaptivePolicy(std::string mode, const ModeSetting& setting)
    : PolicyBase(std::move(mode), setting),
      loads_(static_cast<int>(setting.live.size()), setting.batch, setting.job.parameter_bytes),
      rater_(setting),
      paces_(kPaceRounds * rater_.reference_batch()) {
}

Decision AdaptivePolicy::start() {
    Decision first = PolicyBase::start();
    current_.shape.mode = default_mode(setting().architecture);
    current_.plan = *first.plan;
    current_.batches = first.batches;
    previous_ = current_;
    return first;
}

/// What a change took beyond an update, for the guard.
void AdaptivePolicy::switched(const SwitchReport& report) {
    if (report.first_update_s && update_s_ > 0 && !report.same_mode() && !detour_) {
        guard_.cost(std::max(0.0, *report.first_update_s - update_s_));
    }
}

void AdaptivePolicy::forget_gone() {
    for (std::size_t worker = 0; worker < setting().live.size(); ++worker) {
        if (!setting().live[worker]) {
            loads_.forget(static_cast<int>(worker));
        }
    }
}

Decision AdaptivePolicy::begin_anew(const Telemetry& telemetry, std::string reason) {
    forget_gone();
    guard_.changed_anyway(telemetry.seconds);
    detour_.reset();
    overdue_.clear();
    ModeSetting now = setting();
    now.continued = true;
    current_.plan = make_plan(current_.shape.mode, now);
    current_.plan.fresh_leases = true;  // batches are equal again
    current_.shape.balanced = false;
    current_.batches.assign(setting().live.size(), setting().batch);
    kept_.reset();
    predicted_samples_s_ = 0;
    paces_.restart();
    DecisionRecord record{.chooser = mode(), .reason = reason};
    if (telemetry.load != nullptr) {
        record.stragglers = slow_workers(*telemetry.load);
    }
    return {.plan = current_.plan,
            .batches = current_.batches,
            .reason = std::move(reason),
            .record = std::move(record)};
}

PlanOption AdaptivePolicy::option_of(const SyncPlan& plan,
                                     std::vector<std::int64_t> batches) const {
    batches.resize(setting().live.size(), setting().batch);
    const bool equal = std::all_of(batches.begin(), batches.end(), [this](std::int64_t samples) {
        return samples == setting().batch;
    });
    return {.shape = PlanShape{.mode = plan.name, .balanced = !equal},
            .plan = plan,
            .batches = std::move(batches)};
}

bool AdaptivePolicy::follows(const PlanOption& option) const {
    return same_way(option, current_);
}

void AdaptivePolicy::follow(const PlanOption& option, double now_s) {
    guard_.changed_anyway(now_s);
    detour_.reset();
    previous_ = std::exchange(current_, option);
    current_.plan.fresh_leases = previous_.batches != current_.batches;
    kept_.reset();
    predicted_samples_s_ = 0;
    paces_.restart();
}

bool AdaptivePolicy::observe(const Telemetry& telemetry) {
    const double seconds = telemetry.seconds - seen_s_;
    const auto samples = static_cast<double>(telemetry.samples_applied - seen_samples_);
    paces_.went(current_.shape.family(), seconds, samples, predicted_samples_s_);
    seen_s_ = telemetry.seconds;
    seen_samples_ = telemetry.samples_applied;
    const LoadView& view = *telemetry.load;
    loads_.learn(view, live());
    if (!loads_.ready(live(), *view.history)) {
        watch_.expect({}, {}, {});  // nobody: what was known is of other workers
        return false;
    }
    LoadEstimate load = loads_.estimate(view, live(), kHorizon, guard_.flickers());
    const double iteration_s = mean_iteration_s(load);
    look_for_overdue(load, telemetry);
    count_overdue(load, view, false);
    if (news(load, view)) {
        paces_.restart();  // what was predicted was for another load
        rate_all(load, telemetry);
        iteration_s_ = iteration_s;
    }
    return true;
}

/// Something differs from what the last rating saw.
bool AdaptivePolicy::news(const LoadEstimate& load, const LoadView& view) const {
    const auto differs = [](double a, double b, double tolerance) {
        return std::abs(a - b) > tolerance * std::max(std::abs(a), std::abs(b));
    };
    if (!kept_ || view.lag_limit != lag_limit_ ||
        loads_.records() - rated_at_ > kOftenEnough * static_cast<std::int64_t>(live().size()) ||
        differs(view.gradients.noise_scale, gradients_.noise_scale, kSameGradients) ||
        differs(view.gradients.curvature, gradients_.curvature, kSameGradients)) {
        return true;
    }
    return std::any_of(live().begin(), live().end(), [&](int worker) {
        const auto i = static_cast<std::size_t>(worker);
        const std::int64_t batch = setting().batch;
        return differs(load.own_s(i, batch), load_.own_s(i, batch), kSameLoad) ||
               differs(load.work[i].sample_s, load_.work[i].sample_s, 4 * kSameLoad);
    });
}

/// Workers have begun their next mini-batches with the batches they have: a cohort waits for them
/// once more.
double AdaptivePolicy::entry_s(const PlanOption& option) const {
    double lost_s = 0;
    for (const CohortSpec& cohort : option.plan.cohorts) {
        double before_s = 0;
        double after_s = 0;
        for (const int member : cohort.members) {
            const auto i = static_cast<std::size_t>(member);
            before_s = std::max(before_s, load_.own_s(i, current_.batches[i]));
            after_s = std::max(after_s, load_.own_s(i, option.batches[i]));
        }
        const bool waits = static_cast<std::size_t>(cohort.quorum) >= cohort.members.size();
        lost_s = std::max(lost_s, waits ? before_s - after_s : 0);
    }
    return lost_s;
}

RatedPlan AdaptivePolicy::rated(PlanOption option, const Telemetry& telemetry) const {
    const double pace = paces_.of(option.shape.family());
    RatedPlan plan = rater_.rate(std::move(option), load_, telemetry.load->gradients, pace);
    value(plan, telemetry);
    const double life_s = std::max(expected_life_s(*telemetry.load->stragglers),
                                   kLeastLife * mean_iteration_s(load_));
    const double lost = entry_s(plan.option) / life_s;
    plan.candidate.rate *= 1 - std::min(lost, kMostLost);
    return plan;
}

void AdaptivePolicy::rate_all(const LoadEstimate& load, const Telemetry& telemetry) {
    const LoadView& view = *telemetry.load;
    load_ = load;
    gradients_ = view.gradients;
    lag_limit_ = view.lag_limit;
    rated_at_ = loads_.records();
    kept_ = rated(current_, telemetry);
    predicted_samples_s_ = kept_->timing.samples_s;
    update_s_ = kept_->timing.update_s;
    others_.clear();
    const auto slow = static_cast<int>(slow_workers(view).size());
    const auto workers = static_cast<int>(live().size());
    for (const PlanShape& shape : plan_shapes(setting().architecture, workers, slow)) {
        PlanOption option = make_option(shape, setting(), load);
        const bool known = same_way(option, current_) ||
                           std::any_of(others_.begin(), others_.end(), [&](const RatedPlan& one) {
                               return same_way(one.option, option);
                           });
        if (known) {
            continue;
        }
        if (detour_ && option.plan.late == SyncPlan::Late::kDrop) {
            continue;  // what is late would be lost
        }
        RatedPlan one = rated(std::move(option), telemetry);
        if (one.timing.mean_lag < view.lag_limit) {
            others_.push_back(std::move(one));
        }
    }
    std::stable_sort(others_.begin(), others_.end(), [](const RatedPlan& a, const RatedPlan& b) {
        return a.candidate.rate > b.candidate.rate;
    });
}

SwitchGuard::Wish AdaptivePolicy::wish_for(const RatedPlan& other, const LoadView& view) const {
    return {.gain = other.candidate.rate / kept_->candidate.rate - 1,
            .fresher = other.timing.mean_lag < kept_->timing.mean_lag,
            .same_plan = other.option.shape.mode == current_.shape.mode &&
                         same_members(other.option.plan, current_.plan),
            .refines = other.option.shape == current_.shape && current_.shape.balanced,
            .back = distance(other.option, previous_) < distance(other.option, current_) / 2,
            .noise = loads_.noise(live()),
            .life_s = expected_life_s(*view.stragglers)};
}

Decision AdaptivePolicy::adapt(const Telemetry& telemetry) {
    const bool known = telemetry.load != nullptr && observe(telemetry);
    return known ? choose(telemetry) : Decision();
}

Decision AdaptivePolicy::choose(const Telemetry& telemetry) {
    const LoadView& view = *telemetry.load;
    if (!others_.empty() && kept_->timing.mean_lag >= view.lag_limit) {
        guard_.changed_anyway(telemetry.seconds);
        detour_.reset();
        return take(0, telemetry, "the plan has harmed the run: too stale");
    }
    if (std::optional<Decision> decision = take_detour(telemetry)) {
        return *std::move(decision);
    }
    // The best one may promise too little for its kind while a fresher one promises enough.
    std::optional<SwitchGuard::Wish> wish;
    std::size_t choice = 0;
    for (; choice < others_.size() && others_[choice].candidate.rate > kept_->candidate.rate;
         ++choice) {
        wish = wish_for(others_[choice], view);
        if (guard_.worth(*wish)) {
            break;
        }
        wish.reset();
    }
    if (!guard_.look(telemetry.seconds, iteration_s_, wish ? &*wish : nullptr)) {
        return {};
    }
    guard_.changed(telemetry.seconds, *wish);
    return take(choice, telemetry, reason_of(wish->gain));
}

double AdaptivePolicy::mean_iteration_s(const LoadEstimate& load) const {
    double sum = 0;
    for (const int worker : live()) {
        sum += load.own_s(static_cast<std::size_t>(worker), setting().batch);
    }
    return sum / static_cast<double>(live().size());
}

/// One of the others is to be in force.
Decision AdaptivePolicy::take(std::size_t choice, const Telemetry& telemetry, std::string reason) {
    RatedPlan best = std::move(others_[choice]);
    others_[choice] = *std::exchange(kept_, std::nullopt);
    DecisionRecord record{.chooser = mode(),
                          .reason = reason,
                          .candidates = {best.candidate},
                          .stragglers = slow_workers(*telemetry.load)};
    for (const RatedPlan& other : others_) {
        record.candidates.push_back(other.candidate);
    }
    constexpr std::size_t kMostListed = 20;
    const auto by_rate = [](const Candidate& a, const Candidate& b) { return a.rate > b.rate; };
    std::stable_sort(record.candidates.begin(), record.candidates.end(), by_rate);
    record.candidates.resize(std::min(record.candidates.size(), kMostListed));
    previous_ = std::exchange(current_, std::move(best.option));
    predicted_samples_s_ = best.timing.samples_s;
    update_s_ = best.timing.update_s;
    paces_.restart();
    return {.plan = current_.plan,
            .batches = current_.batches,
            .reason = std::move(reason),
            .record = std::move(record)};
}

std::unique_ptr<ModePolicy> make_adaptive_policy(std::string mode, const ModeSetting& setting,
                                                 const std::vector<double>& /*values*/) {
    return std::make_unique<AdaptivePolicy>(std::move(mode), setting);
}

}  // namespace cohort
