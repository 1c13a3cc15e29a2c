#include "sched/modes/adaptive/plan_ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "cohort/sched/efficiency.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

constexpr double kRemembered = 200;  ///< measurements after which one has faded to a third
constexpr double kLeastRatio = 0.5;
constexpr double kMostRatio = 1.5;
constexpr double kMoved = 0.1;  ///< relative, of a own time: all plans are rated again

/// "3", "3 and 5", "3, 5 and 7"
std::string enumerated(const std::vector<int>& workers) {
    std::string text;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const char* const between = i == 0 ? "" : i + 1 == workers.size() ? " and " : ", ";
        text += fmt::format("{}{}", between, workers[i]);
    }
    return text;
}

bool same_members(const SyncPlan& a, const SyncPlan& b) {
    return std::equal(a.cohorts.begin(), a.cohorts.end(), b.cohorts.begin(), b.cohorts.end(),
                      [](const CohortSpec& x, const CohortSpec& y) {
                          return x.members == y.members && x.riders == y.riders &&
                                 x.quorum == y.quorum;
                      });
}

}  // namespace

PlanRater::PlanRater(const ModeSetting& setting)
    : job_(setting.job), reference_batch_(static_cast<double>(reference_batch_of(setting))) {
}

RatedPlan PlanRater::rate(PlanOption option, const LoadEstimate& load, const TimeDraws& draws,
                          const PlanOption& current, const GradientFacts& gradients,
                          double pace) const {
    RatedPlan rated{.option = std::move(option), .timing = {}, .candidate = {}};
    const SyncPlan& plan = rated.option.plan;
    rated.timing = timing_of(rated.option, load, draws, current);
    Candidate& candidate = rated.candidate;
    candidate.plan = plan.name;
    candidate.samples_s = rated.timing.samples_s * pace;
    StalenessFeatures features{.mean_square_lag = rated.timing.mean_square_lag,
                               .local_steps = static_cast<double>(steps_per_push(plan)),
                               .momentum = job_.momentum};
    const double update_samples = rated.timing.samples_s * rated.timing.update_s;
    if (plan.lr_unit == SyncPlan::LrUnit::kPerSample) {
        features.update_share = update_samples / reference_batch_;
    }
    if (plan.lr_unit == SyncPlan::LrUnit::kAdaScale && plan.work == Work::kGradient &&
        gradients.noise_scale > 0) {
        candidate.batch_efficiency =
            batch_efficiency(gradients.noise_scale, reference_batch_, update_samples);
    }
    candidate.staleness_efficiency = staleness_efficiency(features);
    candidate.rate =
        candidate.samples_s * candidate.batch_efficiency * candidate.staleness_efficiency;
    return rated;
}

/// Iterations in progress end as the plan's first ones, where they have as many steps.
PlanTiming PlanRater::timing_of(const PlanOption& option, const LoadEstimate& load,
                                const TimeDraws& draws, const PlanOption& current) const {
    const int steps = steps_per_push(option.plan);
    const std::size_t workers = option.batches.size();
    std::vector<std::int64_t> samples = option.batches;
    for (std::int64_t& count : samples) {
        count *= steps;
    }
    const bool as_begun = steps == steps_per_push(current.plan);
    return time_plan(
        option.plan, own_times_of(option.plan, option.batches, load), samples,
        static_cast<std::int64_t>(reference_batch_),
        steps == 1 ? draws : draws.averaged(steps, workers),
        as_begun ? own_times_of(option.plan, current.batches, load) : std::vector<double>());
}

void PaceRecord::went(PaceKind kind_of_plan, double seconds, double samples,
                      double predicted_samples_s) {
    if (predicted_samples_s <= 0) {
        return;
    }
    if (skip_ > 0) {
        skip_ -= samples;
        return;
    }
    samples_ += samples;
    predicted_ += predicted_samples_s * seconds;
    if (predicted_ < window_) {
        return;
    }
    ++windows_;
    Kind& kind = kinds_[static_cast<std::size_t>(kind_of_plan)];
    const double ratio = std::clamp(samples_ / predicted_, kLeastRatio, kMostRatio);
    kind = {.ratio = (of(kind_of_plan) + ratio) / 2, .window = windows_};
    begin_window();
}

void PaceRecord::restart(double begun_samples) {
    skip_ = begun_samples;
    begin_window();
}

void PaceRecord::begin_window() {
    samples_ = 0;
    predicted_ = 0;
}

double PaceRecord::of(PaceKind kind_of_plan) const {
    const Kind& kind = kinds_[static_cast<std::size_t>(kind_of_plan)];
    return 1 + std::exp((kind.window - windows_) / kRemembered) * (kind.ratio - 1);
}

bool same_way(const PlanOption& a, const PlanOption& b) {
    return a.batches == b.batches && same_members(a.plan, b.plan) && a.plan.late == b.plan.late &&
           steps_per_push(a.plan) == steps_per_push(b.plan) &&
           a.plan.lag_rule.has_value() == b.plan.lag_rule.has_value();
}

void PlanRanking::rank(const PlanOption& current, const std::vector<PlanShape>& shapes,
                       const Rate& rate) {
    kept_ = rate(current);
    others_.clear();
    for (const PlanShape& shape : shapes) {
        PlanOption option = make_option(shape, setting_, load_);
        const bool known = std::ranges::any_of(
            others_, [&](const RatedPlan& one) { return same_way(one.option, option); });
        if (known) {
            continue;
        }
        if (!same_way(option, current)) {
            others_.push_back(rate(std::move(option)));
        }
    }
    std::ranges::stable_sort(others_, [](const RatedPlan& a, const RatedPlan& b) {
        return a.candidate.rate > b.candidate.rate;
    });
}

RatedPlan PlanRanking::take(std::size_t choice) {
    return std::exchange(others_[choice], *std::exchange(kept_, std::nullopt));
}

std::vector<Candidate> PlanRanking::candidates(const Candidate& first) const {
    constexpr std::size_t kMostListed = 20;
    std::vector<Candidate> all{first};
    std::ranges::transform(others_, std::back_inserter(all), &RatedPlan::candidate);
    std::ranges::stable_sort(all, std::greater(), &Candidate::rate);
    all.resize(std::min(all.size(), kMostListed));
    return all;
}

bool PlanRanking::moved(const LoadEstimate& now, const std::vector<int>& live) const {
    return std::ranges::any_of(live, [&](int worker) {
        const auto i = static_cast<std::size_t>(worker);
        const double before_s = load_.own_s(i, setting_.batch);
        return std::abs(now.own_s(i, setting_.batch) - before_s) > kMoved * before_s;
    });
}

double PlanRanking::iteration_s(const std::vector<int>& live) const {
    double sum = 0;
    for (const int worker : live) {
        sum += load_.own_s(static_cast<std::size_t>(worker), setting_.batch);
    }
    return sum / static_cast<double>(live.size());
}

double PlanRanking::sure_gain(std::size_t index) const {
    const RatedPlan& other = others_[index];
    const double gain = other.candidate.rate / kept_->candidate.rate - 1;
    const std::vector<double>& now = kept_->timing.replicates;
    const std::vector<double>& then = other.timing.replicates;
    const auto count = static_cast<double>(now.size());
    const double faster = other.timing.samples_s / kept_->timing.samples_s;
    double squares = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
        const double off = other.timing.samples_s * (1 / now[i] - faster / then[i]);
        squares += off * off;
    }
    const double error = std::sqrt(squares / (count * std::max(count - 1, 1.0)));
    return gain - kConfidence * error;
}

std::string change_sentence(const OwnTimes& times, std::size_t workers, const RatedPlan& before,
                            const RatedPlan& best) {
    constexpr std::size_t kFew = 3;
    const std::vector<int> slow = times.slow();
    const bool one = slow.size() == 1;
    std::string why;
    if (slow.empty()) {
        why = fmt::format("nobody is slow, times vary by {:.0f} %",
                          100 * std::expm1(times.variation()));
    } else {
        double most = 1;
        for (const int worker : slow) {
            most = std::max(most, times.slowness(worker));
        }
        const std::string who =
            slow.size() <= kFew ? enumerated(slow) : fmt::format("{} of {}", slow.size(), workers);
        why = fmt::format("worker{} {} {} {}{:.1f}x slower", one ? "" : "s", who,
                          one ? "is" : "are", one ? "" : "up to ", most);
    }
    const PlanShape& shape = best.option.shape;
    const std::string family = shape.mode.substr(0, shape.mode.find(':'));
    const std::string number = shape.mode.substr(std::min(shape.mode.size(), family.size() + 1));
    std::string what =
        family == "asgd"       ? "nobody waits"
        : family == "localsgd" ? fmt::format("all wait for all every {} local steps", number)
        : family == "quorum"   ? fmt::format("updates wait for {} of {}", number, workers)
        : family == "ring" && !number.empty()
            ? fmt::format("{} of {} make the ring", number, workers)
            : "all wait for all";
    if (shape.balanced) {
        const std::string batches =
            slow.empty() ? "batches by speed"
                         : fmt::format("smaller batches for {}", one ? "it" : "them");
        what = number.empty() ? batches : what + ", " + batches;
    }
    return fmt::format("{}: {}, {:.4g} -> {:.4g} samples/s", why, what, before.candidate.samples_s,
                       best.candidate.samples_s);
}

}  // namespace cohort
