#include "sched/modes/adaptive/policy_adaptive.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kPaceRounds = 4;      ///< reference batches over which a pace is measured
constexpr int kOften = 8;                    ///< looks without a new rating
constexpr double kUnknownCost = 0.3;         ///< iterations, of a change
constexpr int kReplicates = 8;               ///< at least
constexpr int kLongest = 32;                 ///< iterations of a replicate
constexpr int kAfter = 2;                    ///< iterations until the end of a state is answered
constexpr std::int64_t kPushesTimed = 2048;  ///< of each plan, with few workers

/// Of a sample.
double sample_worth(const Candidate& plan) {
    return plan.batch_efficiency * plan.staleness_efficiency;
}

/// Samples of all workers' iterations under a plan.
double begun_samples(const PlanOption& option, const PlanRater& rater) {
    return steps_per_push(option.plan) * rater.reference_batch();
}

/// The best plan before anything is measured: workers of which nothing is known count as equal. The
/// default plan where times are never looked at, so that no plan would be changed, and where the
/// best plan is not admitted.
PlanShape first_shape(const PlanRater& rater, const ModeSetting& setting, std::int64_t live) {
    PlanShape plain{.mode = default_mode(setting.architecture)};
    if (!setting.measured) {
        return plain;
    }
    const std::size_t workers = setting.live.size();
    const LoadEstimate equal{.cost = std::vector<CostLine>(
                                 workers, {.sample_s = 1 / static_cast<double>(setting.batch)}),
                             .visible_transfer_s = {},
                             .transfer_s = {}};
    const TimeDraws same{.replicates = 1,
                         .iterations = kLongest,
                         .factors = std::vector<float>(workers * kLongest, 1.0F)};
    std::vector<RatedPlan> plans;
    for (const PlanShape& shape :
         plan_shapes(setting.architecture, static_cast<int>(live), 0, false)) {
        const PlanOption option = make_option(shape, setting, equal);
        plans.push_back(rater.rate(option, equal, same, option, {}, 1));
    }
    const RatedPlan& best = *std::ranges::max_element(
        plans, {}, [](const RatedPlan& plan) { return plan.candidate.rate; });
    const bool admitted =
        best.option.shape == plain || !setting.admits ||
        setting.admits(best.option.plan,
                       sample_worth(best.candidate) / sample_worth(plans.front().candidate));
    return admitted ? best.option.shape : plain;
}

}  // namespace

AdaptivePolicy::AdaptivePolicy(Mode mode, const ModeSetting& setting)
    : PolicyBase(std::move(mode), setting),
      times_(static_cast<int>(setting.live.size()), setting.batch, setting.job.parameter_bytes),
      ranking_(PolicyBase::setting()),
      paces_(kPaceRounds * ranking_.rater().reference_batch()) {
}

Decision AdaptivePolicy::start() {
    Decision first = PolicyBase::start();
    current_.shape = first_shape(ranking_.rater(), setting(), std::ssize(live()));
    current_.plan = make_plan(current_.shape.mode, setting());
    current_.batches = first.batches;
    first.plan = current_.plan;
    paces_.restart(begun_samples(current_, ranking_.rater()));  // the first iterations are cold
    return first;
}

/// Before the first look: as soon as most have had an iteration and wait for the others.
std::optional<double> AdaptivePolicy::wake_at(const ActiveIterations& running) const {
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

/// Measures the cost of a change: its time beyond that of an update.
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

Decision AdaptivePolicy::restart(const Telemetry& telemetry, std::string reason) {
    forget_gone();
    paces_.restart(begun_samples(current_, ranking_.rater()));
    ModeSetting now = setting();
    now.continued = true;
    current_.shape = first_shape(ranking_.rater(), setting(), std::ssize(live()));
    current_.plan = make_plan(current_.shape.mode, now);
    current_.plan.fresh_leases = true;  // batches are equal again
    current_.batches.assign(setting().live.size(), setting().batch);
    ranking_.forget_kept();
    predicted_samples_s_ = 0;
    next_look_ = 0;
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
    const bool equal = std::ranges::count(batches, setting().batch) == std::ssize(batches);
    return {.shape = PlanShape{.mode = plan.name, .balanced = !equal},
            .plan = plan,
            .batches = std::move(batches)};
}

bool AdaptivePolicy::follows(const PlanOption& option) const {
    return same_way(option, current_);
}

void AdaptivePolicy::follow(const PlanOption& option) {
    const bool resized = option.batches != current_.batches;
    paces_.restart(begun_samples(current_, ranking_.rater()));
    current_ = option;
    current_.plan.fresh_leases = resized;
    ranking_.forget_kept();
    predicted_samples_s_ = 0;
    next_look_ = 0;
}

bool AdaptivePolicy::observe(const Telemetry& telemetry) {
    const double seconds = telemetry.seconds - std::exchange(seen_s_, telemetry.seconds);
    const auto samples = static_cast<double>(
        telemetry.samples_applied - std::exchange(seen_samples_, telemetry.samples_applied));
    paces_.went(current_.shape.kind(), seconds, samples, predicted_samples_s_);
    const LoadView& view = *telemetry.load;
    std::int64_t pushes = 0;
    for (const WorkerReport& worker : telemetry.workers) {
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
    if (!ranking_.kept() || ++looks_ >= kOften || ranking_.moved(times_.estimate(), live())) {
        rate_again(telemetry);
    }
    return true;
}

void AdaptivePolicy::rate_again(const Telemetry& telemetry) {
    ranking_.set_load(times_.estimate());
    looks_ = 0;
    const auto workers = static_cast<std::int64_t>(live().size());
    const int all = static_cast<int>(std::clamp<std::int64_t>(
        kPushesTimed / workers, kLongest, kReplicates * std::int64_t{kLongest}));
    const int length =
        std::min({static_cast<int>(times_.state_age()) + kAfter, kLongest, all / kReplicates});
    const TimeDraws draws = times_.draw(all / length, length, 1);
    ranking_.rank(
        current_,
        plan_shapes(setting().architecture, static_cast<int>(workers),
                    static_cast<int>(times_.slow().size()), ranking_.rater().rates_local_steps()),
        [&](PlanOption option) {
            const double pace = paces_.of(option.shape.kind());
            RatedPlan plan = ranking_.rater().rate(std::move(option), ranking_.load(), draws,
                                                   current_, telemetry.load->gradients, pace);
            value(plan, telemetry);
            return plan;
        });
    note_timing(*ranking_.kept());
}

Decision AdaptivePolicy::adapt(const Telemetry& telemetry) {
    const bool known = telemetry.load != nullptr && observe(telemetry);
    return known ? choose(telemetry) : Decision();
}

Decision AdaptivePolicy::choose(const Telemetry& /*telemetry*/) {
    const std::vector<RatedPlan>& others = ranking_.others();
    if (!ranking_.kept() || others.empty()) {
        return {};
    }
    const double cost =  // iterations
        change_s_ > 0 ? change_s_ / ranking_.iteration_s(live()) : kUnknownCost;
    // Workers begin local steps without velocity: with momentum m the first steps move by m / (1 -
    // m) steps less.
    const double momentum = setting().job.momentum;
    const bool local = current_.shape.kind() == PaceKind::kLocal;
    std::vector<std::pair<double, std::size_t>> gains;  // negative, and index
    for (std::size_t i = 0; i < others.size(); ++i) {
        const bool starts = !local && others[i].option.shape.kind() == PaceKind::kLocal;
        const double lost = cost + (starts ? momentum / (1 - momentum) : 0);
        const double gain = ranking_.sure_gain(i) - lost / (kLasts * times_.state_age());
        if (gain > kLeastGain) {
            gains.emplace_back(-gain, i);
        }
    }
    std::ranges::sort(gains);
    const auto choice = std::ranges::find_if(gains, [&](const auto& each) {
        const RatedPlan& wanted = others[each.second];
        return admitted(wanted.option.plan,
                        sample_worth(wanted.candidate) / sample_worth(ranking_.kept()->candidate));
    });
    return choice != gains.end() ? take(choice->second) : Decision();
}

/// One of the others is to be in force.
Decision AdaptivePolicy::take(std::size_t choice) {
    std::string reason =
        change_sentence(times_, live().size(), *ranking_.kept(), ranking_.others()[choice]);
    RatedPlan best = ranking_.take(choice);
    DecisionRecord record{.chooser = mode().text,
                          .reason = reason,
                          .candidates = ranking_.candidates(best.candidate),
                          .stragglers = times_.slow()};
    note_timing(best);
    paces_.restart(begun_samples(current_, ranking_.rater()));
    current_ = std::move(best.option);
    return {.plan = current_.plan,
            .batches = current_.batches,
            .reason = std::move(reason),
            .record = std::move(record)};
}

}  // namespace cohort
