#include "sched/modes/adaptive/policy_adaptive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sched/modes/policies.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kPaceRounds = 8;      ///< reference batches over which a pace is measured
constexpr int kOften = 8;                    ///< looks without a new rating
constexpr double kMoved = 0.1;               ///< relative, of an own time: all is rated anew
constexpr double kUnknownCost = 0.3;         ///< iterations, of a change
constexpr int kReplicates = 8;               ///< at least
constexpr int kLongest = 32;                 ///< iterations of a replicate
constexpr int kAfter = 2;                    ///< iterations until the end of a state is answered
constexpr std::int64_t kPushesTimed = 2048;  ///< of each plan, with few workers

bool same_members(const SyncPlan& a, const SyncPlan& b) {
    return std::equal(a.cohorts.begin(), a.cohorts.end(), b.cohorts.begin(), b.cohorts.end(),
                      [](const CohortSpec& x, const CohortSpec& y) {
                          return x.members == y.members && x.riders == y.riders &&
                                 x.quorum == y.quorum;
                      });
}

/// Nobody could tell them apart, but by their learning rates.
bool same_way(const PlanOption& a, const PlanOption& b) {
    return a.batches == b.batches && same_members(a.plan, b.plan) && a.plan.late == b.plan.late &&
           a.plan.lag_rule.has_value() == b.plan.lag_rule.has_value();
}

/// "3", "3 and 5", "3, 5 and 7"
std::string enumerated(const std::vector<int>& workers) {
    std::string text;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const char* const between = i == 0 ? "" : i + 1 == workers.size() ? " and " : ", ";
        text += fmt::format("{}{}", between, workers[i]);
    }
    return text;
}

}  // namespace

AdaptivePolicy::AdaptivePolicy(Mode mode, const ModeSetting& setting)
    : PolicyBase(std::move(mode), setting),
      times_(static_cast<int>(setting.live.size()), setting.batch, setting.job.parameter_bytes),
      rater_(setting),
      paces_(kPaceRounds * rater_.reference_batch()) {
}

Decision AdaptivePolicy::start() {
    Decision first = PolicyBase::start();
    current_.shape.mode = default_mode(setting().architecture);
    current_.plan = *first.plan;
    current_.batches = first.batches;
    return first;
}

/// Before the first look: as soon as most have had an iteration and wait for the others.
std::optional<double> AdaptivePolicy::wake_at(const RunningIterations& running) const {
    if (times_.ready()) {
        return times_.wake_at(running);
    }
    std::size_t at_it = 0;
    std::optional<double> first_s;
    for (const int worker : live()) {
        if (const std::optional<double> begun_s = running.begun_s(worker)) {
            ++at_it;
            first_s = std::min(first_s.value_or(*begun_s), *begun_s);
        }
    }
    return at_it > 0 && 2 * at_it < live().size() ? first_s : std::nullopt;
}

/// What a change took beyond an update.
void AdaptivePolicy::switched(const SwitchReport& report) {
    constexpr double kWeight = 0.3;
    if (report.first_update_s && update_s_ > 0 && !report.same_mode()) {
        const double cost_s = std::max(0.0, *report.first_update_s - update_s_);
        change_s_ += (change_s_ == 0 ? 1 : kWeight) * (cost_s - change_s_);
    }
}

void AdaptivePolicy::forget_gone() {
    for (std::size_t worker = 0; worker < setting().live.size(); ++worker) {
        if (!setting().live[worker]) {
            times_.forget(static_cast<int>(worker));
        }
    }
}

Decision AdaptivePolicy::begin_anew(const Telemetry& telemetry, std::string reason) {
    forget_gone();
    ModeSetting now = setting();
    now.continued = true;
    const std::string& before = current_.shape.mode;  // a quorum of more than there are is none
    current_.shape = {.mode = before == "asgd" ? before : default_mode(setting().architecture)};
    current_.plan = make_plan(current_.shape.mode, now);
    current_.plan.fresh_leases = true;  // batches are equal again
    current_.batches.assign(setting().live.size(), setting().batch);
    kept_.reset();
    predicted_samples_s_ = 0;
    next_look_ = 0;
    paces_.restart();
    DecisionRecord record{.chooser = mode().text, .reason = reason};
    if (telemetry.load != nullptr) {
        record.stragglers = times_.slow();
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
    return same_way(option, current_) && option.plan.lr_scale == current_.plan.lr_scale;
}

void AdaptivePolicy::follow(const PlanOption& option) {
    const bool resized = option.batches != current_.batches;
    current_ = option;
    current_.plan.fresh_leases = resized;
    kept_.reset();
    predicted_samples_s_ = 0;
    next_look_ = 0;
    paces_.restart();
}

bool AdaptivePolicy::observe(const Telemetry& telemetry) {
    const double seconds = telemetry.seconds - std::exchange(seen_s_, telemetry.seconds);
    const auto samples = static_cast<double>(
        telemetry.samples_applied - std::exchange(seen_samples_, telemetry.samples_applied));
    paces_.went(current_.shape.waits(), seconds, samples, predicted_samples_s_);
    const LoadView& view = *telemetry.load;
    std::int64_t pushes = 0;
    for (const WorkerTelemetry& worker : telemetry.workers) {
        pushes += worker.pushes;
    }
    const std::optional<double> wake_s =
        view.running != nullptr ? AdaptivePolicy::wake_at(*view.running) : std::nullopt;
    const bool woken = wake_s && *wake_s <= telemetry.seconds;
    if (pushes < next_look_ && !woken) {
        return times_.ready();
    }
    next_look_ = pushes + static_cast<std::int64_t>(live().size());
    times_.look(view, live(), telemetry.seconds);
    if (!times_.ready()) {
        return false;
    }
    if (!kept_ || ++looks_ >= kOften || moved()) {
        rate_anew(telemetry);
    }
    return true;
}

/// Somebody's own time is another one than at the last rating.
bool AdaptivePolicy::moved() const {
    const LoadEstimate now = times_.estimate();
    return std::any_of(live().begin(), live().end(), [&](int worker) {
        const auto i = static_cast<std::size_t>(worker);
        const double before_s = load_.own_s(i, setting().batch);
        return std::abs(now.own_s(i, setting().batch) - before_s) > kMoved * before_s;
    });
}

RatedPlan AdaptivePolicy::rated(PlanOption option, const TimeDraws& draws,
                                const Telemetry& telemetry, bool in_force) const {
    const double pace = paces_.of(option.shape.waits());
    RatedPlan plan = rater_.rate(std::move(option), load_, draws, current_.batches,
                                 telemetry.load->gradients, pace, in_force);
    value(plan, telemetry);
    return plan;
}

void AdaptivePolicy::rate_anew(const Telemetry& telemetry) {
    load_ = times_.estimate();
    looks_ = 0;
    const auto workers = static_cast<std::int64_t>(live().size());
    const int all = static_cast<int>(std::clamp<std::int64_t>(
        kPushesTimed / workers, kLongest, kReplicates * std::int64_t{kLongest}));
    const int length =
        std::min({static_cast<int>(times_.state_age()) + kAfter, kLongest, all / kReplicates});
    const TimeDraws draws = times_.draw(all / length, length, 1);
    kept_ = rated(current_, draws, telemetry, true);
    predicted_samples_s_ = kept_->timing.samples_s;
    update_s_ = kept_->timing.update_s;
    others_.clear();
    for (const PlanShape& shape : plan_shapes(setting().architecture, static_cast<int>(workers),
                                              static_cast<int>(times_.slow().size()))) {
        PlanOption option = make_option(shape, setting(), load_);
        const bool known = std::any_of(others_.begin(), others_.end(), [&](const RatedPlan& one) {
            return same_way(one.option, option);
        });
        if (known) {
            continue;
        }
        RatedPlan one = rated(std::move(option), draws, telemetry, false);
        if (follows(one.option)) {
            continue;
        }
        others_.push_back(std::move(one));
    }
    std::stable_sort(others_.begin(), others_.end(), [](const RatedPlan& a, const RatedPlan& b) {
        return a.candidate.rate > b.candidate.rate;
    });
}

/// Gain less what may be chance, and less what the change costs.
double AdaptivePolicy::sure_gain(const RatedPlan& other) const {
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
    const double cost = change_s_ > 0 ? change_s_ / iteration_s() : kUnknownCost;  // iterations
    return gain - kConfidence * error - cost / (kLasts * times_.state_age());
}

Decision AdaptivePolicy::adapt(const Telemetry& telemetry) {
    const bool known = telemetry.load != nullptr && observe(telemetry);
    return known ? choose(telemetry) : Decision();
}

Decision AdaptivePolicy::choose(const Telemetry& telemetry) {
    if (!kept_ || others_.empty()) {
        return {};
    }
    std::size_t choice = 0;
    double most = kLeastGain;
    for (std::size_t i = 0; i < others_.size(); ++i) {
        if (const double gain = sure_gain(others_[i]); gain > most) {
            most = gain;
            choice = i;
        }
    }
    return most > kLeastGain ? take(choice, telemetry, sentence(others_[choice])) : Decision();
}

double AdaptivePolicy::iteration_s() const {
    double sum = 0;
    for (const int worker : live()) {
        sum += load_.own_s(static_cast<std::size_t>(worker), setting().batch);
    }
    return sum / static_cast<double>(live().size());
}

/// "worker 3 is 3.6x slower: smaller batches for it, 748 -> 2200 samples/s"
std::string AdaptivePolicy::sentence(const RatedPlan& best) const {
    constexpr std::size_t kFew = 3;
    const std::vector<int> slow = times_.slow();
    const bool one = slow.size() == 1;
    std::string why;
    if (slow.empty()) {
        why = fmt::format("nobody is slow, times vary by {:.0f} %",
                          100 * std::expm1(times_.variation()));
    } else {
        double most = 1;
        for (const int worker : slow) {
            most = std::max(most, times_.slowness(worker));
        }
        const std::string who = slow.size() <= kFew
                                    ? enumerated(slow)
                                    : fmt::format("{} of {}", slow.size(), live().size());
        why = fmt::format("worker{} {} {} {}{:.1f}x slower", one ? "" : "s", who,
                          one ? "is" : "are", one ? "" : "up to ", most);
    }
    const PlanShape& shape = best.option.shape;
    const std::string family = shape.mode.substr(0, shape.mode.find(':'));
    const std::string number = shape.mode.substr(std::min(shape.mode.size(), family.size() + 1));
    std::string what = family == "asgd" ? "nobody waits"
                       : family == "quorum"
                           ? fmt::format("updates wait for {} of {}", number, live().size())
                       : family == "ring" && !number.empty()
                           ? fmt::format("{} of {} make the ring", number, live().size())
                           : "all wait for all";
    if (shape.balanced) {
        const std::string batches =
            slow.empty() ? "batches by speed"
                         : fmt::format("smaller batches for {}", one ? "it" : "them");
        what = number.empty() ? batches : what + ", " + batches;
    }
    return fmt::format("{}: {}, {:.4g} -> {:.4g} samples/s", why, what, kept_->candidate.samples_s,
                       best.candidate.samples_s);
}

/// One of the others is to be in force.
Decision AdaptivePolicy::take(std::size_t choice, const Telemetry& /*telemetry*/,
                              std::string reason) {
    RatedPlan best = std::move(others_[choice]);
    others_[choice] = *std::exchange(kept_, std::nullopt);
    DecisionRecord record{.chooser = mode().text,
                          .reason = reason,
                          .candidates = {best.candidate},
                          .stragglers = times_.slow()};
    for (const RatedPlan& other : others_) {
        record.candidates.push_back(other.candidate);
    }
    constexpr std::size_t kMostListed = 20;
    const auto by_rate = [](const Candidate& a, const Candidate& b) { return a.rate > b.rate; };
    std::stable_sort(record.candidates.begin(), record.candidates.end(), by_rate);
    record.candidates.resize(std::min(record.candidates.size(), kMostListed));
    current_ = std::move(best.option);
    predicted_samples_s_ = best.timing.samples_s;
    update_s_ = best.timing.update_s;
    paces_.restart();
    return {.plan = current_.plan,
            .batches = current_.batches,
            .reason = std::move(reason),
            .record = std::move(record)};
}

std::unique_ptr<ModePolicy> make_adaptive_policy(Mode mode, const ModeSetting& setting) {
    return std::make_unique<AdaptivePolicy>(std::move(mode), setting);
}

}  // namespace cohort
