#include "sched/modes/star/policy_star.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "sched/telemetry/straggler_windows.hpp"

namespace cohort {
namespace {

constexpr int kAhead = 10;               ///< iterations whose mean time counts
constexpr std::size_t kMostListed = 20;  ///< candidates of a record
// Multiples of the fastest time from which on a worker is a straggler, and below which it is none.
constexpr double kStraggles = StragglerWindows::kBegins;
constexpr double kKeepsUp = StragglerWindows::kEnds;

}  // namespace

Decision StarPolicy::start() {
    current_ = {};
    return PolicyBase::start();
}

Decision StarPolicy::adapt(const Telemetry& telemetry) {
    if (!due()) {
        return {};
    }
    if (telemetry.load != nullptr && telemetry.load->gradients.noise_scale > 0) {
        noise_scale_ = telemetry.load->gradients.noise_scale;
    }
    const StarLook look = look_at(predicted_times(telemetry, kAhead));
    StarPlan wanted = wanted_plan(look);
    if (wanted == current_ || !pays(wanted, look) ||
        !admitted(plan_of(wanted, look), worth(wanted, look) / worth(current_, look))) {
        brake_.content();
        return {};
    }
    if (!brake_.wants(wanted.kind == StarPlan::Kind::kAll ? 0 : 1)) {
        return {};
    }
    return change_to(std::move(wanted), look, why(look));
}

Decision StarPolicy::remake(std::string reason) {
    const StarLook look = look_at(times());
    return change_to(wanted_plan(look), look, std::move(reason));
}

bool StarPolicy::straggles(const StarLook& look, bool straggling) const {
    return look.slowest() > (straggling ? kKeepsUp : kStraggles) * look.fastest();
}

std::string StarPolicy::why(const StarLook& look) const {
    if (!straggling_) {
        return "nobody is predicted to straggle";
    }
    const auto slowest = std::ranges::max_element(look.own_s);
    return fmt::format("worker {} is predicted to take {:.2f} times as long as the fastest",
                       live()[static_cast<std::size_t>(slowest - look.own_s.begin())],
                       *slowest / look.fastest());
}

/// Until the noise scale is known it counts as the reference batch: half of the samples added to a
/// batch of that size are lost.
StarLook StarPolicy::look_at(std::vector<double> own_s) const {
    const auto reference = static_cast<double>(reference_batch_of(setting()));
    return {.own_s = std::move(own_s),
            .batch = static_cast<double>(setting().batch),
            .reference_batch = reference,
            .noise_scale = noise_scale_ > 0 ? noise_scale_ : reference};
}

StarPlan StarPolicy::wanted_plan(const StarLook& look) {
    straggling_ = straggles(look, straggling_);
    return straggling_ ? choose(look) : StarPlan();
}

/// Changes from ssgd and back to it follow the rule alone.
bool StarPolicy::pays(const StarPlan& wanted, const StarLook& look) const {
    return !straggling_ || current_.kind == StarPlan::Kind::kAll ||
           cost(current_, look) > kGain * cost(wanted, look);
}

std::string StarPolicy::name_of(const StarPlan& plan) const {
    switch (plan.kind) {
        case StarPlan::Kind::kOrder: return fmt::format("static:{}", plan.order);
        case StarPlan::Kind::kRing: return fmt::format("ring:{}", plan.order);
        case StarPlan::Kind::kGroups: return "dynamic";
        case StarPlan::Kind::kEach: return "asgd";
        default: return default_mode(setting().architecture);
    }
}

SyncPlan StarPolicy::plan_of(const StarPlan& wanted, const StarLook& look) const {
    if (wanted.kind == StarPlan::Kind::kGroups) {
        std::vector<std::vector<int>> groups = wanted.groups;
        for (std::vector<int>& group : groups) {
            std::ranges::transform(group, group.begin(),
                                   [this](int i) { return live()[static_cast<std::size_t>(i)]; });
        }
        return grouped_plan(groups, setting());
    }
    ModeSetting now = setting();
    for (std::size_t i = 0; i < live().size(); ++i) {
        now.own_seconds[static_cast<std::size_t>(live()[i])] = look.own_s[i];
    }
    return make_plan(name_of(wanted), now);
}

/// Throughput by the rule: an update of M samples costs t n(M), so M / t = (M + phi) / cost.
double StarPolicy::samples_s(const StarPlan& plan, const StarLook& look) const {
    if (plan.kind == StarPlan::Kind::kAll || plan.order > 0) {
        const int pushes = plan.order > 0 ? plan.order : look.workers();
        return (pushes * look.batch + look.noise_scale) / cost(plan, look);
    }
    double sum = 0;
    for (const std::vector<int>& group : plan.groups) {
        sum += static_cast<double>(group.size()) * look.batch / look.slowest_of(group);
    }
    return sum;
}

/// Progress per sample, up to a factor.
double StarPolicy::worth(const StarPlan& plan, const StarLook& look) const {
    return 1 / (cost(plan, look) * samples_s(plan, look));
}

/// Rates in samples of ssgd.
DecisionRecord StarPolicy::record(const StarLook& look, const std::string& reason) const {
    DecisionRecord made{.chooser = mode().text, .reason = reason};
    for (const StarPlan& rival : rivals(look)) {
        Candidate& one = made.candidates.emplace_back();
        one.plan = name_of(rival);
        one.samples_s = samples_s(rival, look);
        one.rate = (look.reference_batch + look.noise_scale) / cost(rival, look);
        one.batch_efficiency = one.rate / one.samples_s;
    }
    std::ranges::stable_sort(made.candidates, std::greater(), &Candidate::rate);
    made.candidates.resize(std::min(made.candidates.size(), kMostListed));
    for (std::size_t i = 0; i < live().size(); ++i) {
        if (look.own_s[i] > kStraggles * look.fastest()) {
            made.stragglers.push_back(live()[i]);
        }
    }
    return made;
}

Decision StarPolicy::change_to(StarPlan wanted, const StarLook& look, std::string reason) {
    current_ = std::move(wanted);
    DecisionRecord told = record(look, reason);
    return {.plan = plan_of(current_, look),
            .batches = {},
            .reason = std::move(reason),
            .record = std::move(told)};
}

}  // namespace cohort
