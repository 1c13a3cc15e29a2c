#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "policy_adaptive.hpp"

// What the chooser `adaptive` does about workers that are overdue: a detour on which nobody waits
// for them, from the moment when they are late until it is known how fast they are now.
namespace cohort {
namespace {

constexpr double kSoon = 24;             ///< iterations after which being late is not "again"
constexpr double kQuick = 1.25;          ///< times what it took before it was late, at most
constexpr double kPatience = 16;         ///< times the usual: who has been late for so long is slow
constexpr double kWays = 2;              ///< changes: there and back
constexpr std::int64_t kBack = 2;        ///< pushes: the late one and the next, which is short
constexpr std::int64_t kLeastShare = 8;  ///< that one has at least such a part of its batch

bool lasts(const OverdueWorker& late) {
    return late.lasted_s >= kPatience * late.usual_s;
}

/// A cohort for each one that is late and would be waited for; the others of its cohort wait for
/// all of theirs. Empty: nobody waits for those who are late.
std::vector<std::vector<int>> set_apart(const SyncPlan& plan, const std::set<int>& late) {
    std::vector<std::vector<int>> groups;
    bool freed = false;
    for (const CohortSpec& cohort : plan.cohorts) {
        std::vector<int> rest;
        std::copy_if(cohort.members.begin(), cohort.members.end(), std::back_inserter(rest),
                     [&](int member) { return !late.contains(member); });
        freed = freed || (!rest.empty() && static_cast<std::size_t>(cohort.quorum) > rest.size());
        for (const int member : cohort.members) {
            if (late.contains(member)) {
                groups.push_back({member});
            }
        }
        if (!rest.empty()) {
            groups.push_back(std::move(rest));
        }
    }
    return freed ? groups : std::vector<std::vector<int>>();
}

}  // namespace

/// By worker.
std::vector<int> AdaptivePolicy::slow_workers(const LoadView& view) const {
    std::set<int> slow;
    for (const auto& episode : view.stragglers->open()) {
        if (episode && !episode->by_lag) {
            slow.insert(episode->worker);
        }
    }
    for (const OverdueWorker& one : overdue_) {
        slow.insert(one.worker);
    }
    return {slow.begin(), slow.end()};
}

std::string AdaptivePolicy::reason_of(double gain) const {
    return fmt::format("{}{}{:.0f} % more progress per second expected", describe(overdue_),
                       overdue_.empty() ? "" : "; ", 100 * gain);
}

/// Of the workers that there are, and of a load that does not know of them.
void AdaptivePolicy::look_for_overdue(const LoadEstimate& load, const Telemetry& telemetry) {
    const LoadView& view = *telemetry.load;
    if (view.running == nullptr) {
        return;
    }
    std::vector<OverdueWatch::Sureness> sure(load.work.size());
    for (const int worker : live()) {
        sure[static_cast<std::size_t>(worker)] = {.known = loads_.sure(worker, *view.history),
                                                  .noise = loads_.noise(worker)};
    }
    watch_.expect(loads_.usual(load, live()), live(), std::move(sure));
    lateness_.resize(load.work.size());
    overdue_ = watch_.look(*view.running, telemetry.seconds);
    just_late_ = std::any_of(overdue_.begin(), overdue_.end(),
                             [](const OverdueWorker& one) { return !lasts(one); });
    std::erase_if(overdue_, [&](const OverdueWorker& one) { return !heeds(one, telemetry); });
}

/// Whatever makes its iteration long, less work would not have made it short: what it takes beyond
/// the usual is fixed.
void AdaptivePolicy::count_overdue(LoadEstimate& load, const LoadView& view, bool all) const {
    for (const OverdueWorker& one : overdue_) {
        if (!all && !lasts(one)) {
            continue;
        }
        load.work[static_cast<std::size_t>(one.worker)].fixed_s +=
            one.total_s(view.stragglers->mean_slowdown()) - one.usual_s;
    }
}

/// Who is late every few iterations, and quick in between, is only heeded when that lasts; and what
/// it makes the others wish for must last, too.
bool AdaptivePolicy::heeds(const OverdueWorker& late, const Telemetry& telemetry) {
    const RunningIterations& running = *telemetry.load->running;
    Lateness& before = lateness_[static_cast<std::size_t>(late.worker)];
    const double begun_s = running.begun_s(late.worker).value_or(telemetry.seconds);
    if (before.begun_s != begun_s) {
        const double usual_s = late.usual_s / static_cast<double>(running.samples(late.worker));
        const bool soon = before.seen_s >= 0 && begun_s - before.seen_s < kSoon * iteration_s_;
        before.again = soon && usual_s < kQuick * before.usual_s;
        before.usual_s = soon ? std::min(before.usual_s, usual_s) : usual_s;
        before.begun_s = begun_s;
        if (before.again) {
            guard_.flickered();
        }
    }
    before.seen_s = telemetry.seconds;
    return !before.again || lasts(late);
}

/// Nothing is changed while somebody is late and nobody knows by how much, but for long ones.
/// @return what to do; none: look at the plans
std::optional<Decision> AdaptivePolicy::take_detour(const Telemetry& telemetry) {
    if (!overdue_.empty()) {
        if (std::optional<Decision> begun = begin_detour(telemetry)) {
            return begun;
        }
    }
    const TelemetryHistory& history = *telemetry.load->history;
    const bool back =
        detour_ &&
        std::all_of(detour_->iterations.begin(), detour_->iterations.end(), [&](const auto& apart) {
            return history.size(apart.first) > 0 &&
                   history.record(apart.first, 0).iteration >= apart.second;
        });
    if (back) {
        return end_detour(telemetry);
    }
    if (!just_late_ && (!detour_ || !overdue_.empty())) {
        return std::nullopt;
    }
    (void)guard_.look(telemetry.seconds, iteration_s_, nullptr);
    return Decision();
}

/// Who would be freed goes on without them. Their next mini-batches are short, as if they stayed so
/// slow: the sooner they show how fast they are. A detour has begun.
PlanOption AdaptivePolicy::apart(const std::vector<std::vector<int>>& groups,
                                 const LoadView& view) const {
    PlanOption option = current_;
    option.shape = PlanShape{.mode = "dynamic"};
    option.plan = grouped_plan(groups, setting());
    option.plan.fresh_leases = true;
    for (const OverdueWorker& one : overdue_) {
        const auto i = static_cast<std::size_t>(one.worker);
        const std::int64_t batch = detour_->batches[i];
        const double share = one.usual_s / one.total_s(view.stragglers->mean_slowdown());
        const auto less = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(batch)));
        option.batches[i] = std::max(less, (batch + kLeastShare - 1) / kLeastShare);
    }
    return option;
}

/// It is better than noise, and what it gains until they come is more than changing there and back
/// costs.
bool AdaptivePolicy::detour_pays(double gain, const LoadView& view) const {
    double lasts_s = 0;  // from now on
    for (const OverdueWorker& one : overdue_) {
        lasts_s = std::max(lasts_s, one.total_s(view.stragglers->mean_slowdown()) - one.least_s);
    }
    return gain > SwitchGuard::kGain + loads_.noise(live()) &&
           gain / (1 + gain) * lasts_s > kWays * guard_.price_s();
}

/// @return none: nobody would be freed, or it does not pay
std::optional<Decision> AdaptivePolicy::begin_detour(const Telemetry& telemetry) {
    const LoadView& view = *telemetry.load;
    std::set<int> late;
    for (const OverdueWorker& one : overdue_) {
        late.insert(one.worker);
    }
    const std::vector<std::vector<int>> groups = set_apart(current_.plan, late);
    if (groups.empty()) {
        return std::nullopt;
    }
    const std::optional<Detour> before = detour_;
    const LoadEstimate healthy = load_;
    LoadEstimate load = load_;
    count_overdue(load, view, true);
    detour_ = before.value_or(Detour{.begun_s = telemetry.seconds,
                                     .from = current_.shape,
                                     .batches = current_.batches,
                                     .iterations = {}});
    rate_all(load, telemetry);
    RatedPlan freed = rated(apart(groups, view), telemetry);
    const double gain = freed.candidate.rate / kept_->candidate.rate - 1;
    if (!detour_pays(gain, view) || freed.timing.mean_lag >= view.lag_limit) {
        detour_ = before;
        rate_all(healthy, telemetry);
        return std::nullopt;
    }
    for (const int worker : late) {
        detour_->iterations.try_emplace(worker, view.history->record(worker, 0).iteration + kBack);
    }
    others_.insert(others_.begin(), std::move(freed));
    return take(0, telemetry, reason_of(gain));
}

/// For how long others would have waited for those who were late.
double AdaptivePolicy::saved_s(const Detour& detour, const TelemetryHistory& history) const {
    double saved_s = 0;
    for (const auto& [worker, iteration] : detour.iterations) {
        const std::int64_t newer = history.record(worker, 0).iteration - iteration + 1;
        const auto age = static_cast<std::size_t>(newer);
        if (age < history.size(worker)) {
            saved_s = std::max(saved_s, history.record(worker, age).arrived_s - detour.begun_s);
        }
    }
    return saved_s;
}

/// What was in force before, or what is better by more than noise.
Decision AdaptivePolicy::end_detour(const Telemetry& telemetry) {
    const Detour detour = *std::exchange(detour_, std::nullopt);
    watch_.learn(saved_s(detour, *telemetry.load->history) > guard_.price_s());
    guard_.returned();
    rate_anew(telemetry);
    if (others_.empty()) {
        return {};
    }
    const double least = (1 + SwitchGuard::kFresherGain + loads_.noise(live()));
    const auto before = std::find_if(others_.begin(), others_.end(), [&](const RatedPlan& one) {
        return one.option.shape == detour.from;
    });
    const bool as_good =
        before != others_.end() && before->candidate.rate * least >= others_.front().candidate.rate;
    const std::size_t choice = as_good ? static_cast<std::size_t>(before - others_.begin()) : 0;
    if (others_[choice].candidate.rate < kept_->candidate.rate) {
        return {};
    }
    return take(choice, telemetry, "who was overdue is back");
}

}  // namespace cohort
