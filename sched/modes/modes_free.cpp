#include <algorithm>
#include <cmath>

#include "sched/modes/mode_table.hpp"
#include "sched/modes/policies.hpp"

// Modes in which every push is an update of its own.
namespace cohort {
namespace {

constexpr double kSspClockBound = 3;    ///< ssp, in pushes
constexpr double kCompensation = 0.04;  ///< dcasgd, Zheng et al. 2017
constexpr double kLagBound = 2;         ///< saps, in reference batches; auto: at the start
constexpr double kLeastCosine = 0.01;   ///< zeno++: rho / gamma of its authors' runs
constexpr double kValidateEvery = 10;   ///< zeno++, in updates: of its authors' runs

SyncPlan asgd(const ModeRequest& request) {
    SyncPlan plan = cohorts_of_one(request);
    plan.published_unit = request.samples_of(1);
    return plan;
}

SyncPlan ssp(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.clock_bound = request.whole(0);
    return plan;
}

/// The step is eta / (lag + 1) whatever the size of the update.
double published_step(const FiredPush& push, const FiringSet& set) {
    return 1 / (set.fraction * static_cast<double>(push.lag_updates + 1));
}

SyncPlan dynsgd(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.weight = published_step;
    return plan;
}

SyncPlan adadelay(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.weight = [smoothness = request.values[0], growth = request.values[1]](
                      const FiredPush& push, const FiringSet& set) {
        return 1 / (smoothness +
                    growth * std::sqrt(static_cast<double>(set.version + push.lag_updates)));
    };
    return plan;
}

SyncPlan dcasgd(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.delay_compensation = request.values[0];
    return plan;
}

SyncPlan saps(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    const double bound = request.values[0];
    plan.lag_rule = {.bound = bound == kAutomatic ? kLagBound : bound,
                     .action = static_cast<SyncPlan::LagAction>(request.whole(1))};
    return plan;
}

/// Factor that gives a push the reference's length; 1 when one of them is zero, or without a
/// reference.
double as_long_as_reference(const FiredPush& push, const FiringSet& /*set*/) {
    const PushTicket& ticket = push.ticket;
    const bool both = ticket.reference_norm > 0 && ticket.gradient_norm > 0;
    return both ? ticket.reference_norm / ticket.gradient_norm : 1;
}

/// Zeno++'s score gamma <v, g> - rho |g|^2 >= -gamma epsilon, g as long as v: with epsilon = 0 a
/// bound of the cosine between them, rho / gamma.
SyncPlan zeno(const ModeRequest& request) {
    SyncPlan plan = asgd(request);
    plan.validate_every = request.whole(1);
    plan.accept = [cosine = request.values[0]](const PushTicket& ticket) {
        return ticket.reference_dot >= cosine * ticket.gradient_norm * ticket.reference_norm;
    };
    plan.weight = as_long_as_reference;
    return plan;
}

}  // namespace

std::vector<ModeEntry> free_modes() {
    return {
        {.name = "asgd", .parameters = {}, .plan = asgd},
        {.name = "ssp", .parameters = {{.name = "S", .fallback = kSspClockBound}}, .plan = ssp},
        {.name = "dynsgd", .parameters = {}, .plan = dynsgd},
        {.name = "adadelay",
         .parameters = {{.name = "L", .least = 1e-6, .fallback = 1, .whole = false},
                        {.name = "C", .fallback = 0, .whole = false}},
         .plan = adadelay,
         .separator = ','},
        {.name = "dcasgd",
         .parameters = {{.name = "LAMBDA", .fallback = kCompensation, .whole = false}},
         .plan = dcasgd},
        {.name = "saps",
         .parameters = {{.name = "D", .fallback = kLagBound, .whole = false, .automatic = true},
                        {.name = "ACTION",
                         .fallback = 0,
                         .words = {"refresh", "drop", "discount"}}},  // as SyncPlan::LagAction
         .plan = saps,
         .policy = make_saps_policy},
        {.name = "zeno++",
         .parameters = {{.name = "COSINE",
                         .least = -1,
                         .most = ModeParameter::Most::kOne,
                         .fallback = kLeastCosine,
                         .whole = false},
                        {.name = "EVERY", .least = 1, .fallback = kValidateEvery}},
         .plan = zeno},
    };
}

}  // namespace cohort
