#include "sched/modes/mode_table.hpp"
#include "sched/modes/policies.hpp"

// Modes that are a policy over other modes' plans; the entry's plan is the initial one.
namespace cohort {
namespace {

constexpr double kFlexClockBound = 3;  ///< flexrr, as ssp
/// star-h-exact: a multiple of the median own time; corresponds to the published 50 ms for
/// iterations of 100 ms.
constexpr double kStarRelativeCut = 0.5;

SyncPlan as_ssgd(const ModeRequest& request) {
    return make_plan("ssgd", request.setting);
}

SyncPlan all_of_them(const ModeRequest& request) {
    return make_plan(default_mode(request.setting.architecture), request.setting);
}

/// With a share of 0 the mode starts with asgd.
SyncPlan sync_switch(const ModeRequest& request) {
    return request.values[0] > 0 ? make_plan("ssgd", request.setting)
                                 : asynchronous_plan(request.setting);
}

SyncPlan flexrr(const ModeRequest& request) {
    return make_plan("ssp:" + std::to_string(request.whole(0)), request.setting);
}

}  // namespace

std::vector<ModeEntry> adaptive_modes() {
    return {
        {.name = "lb-bsp",
         .rings = true,
         .parameters = {{.name = "PIECES", .fallback = 0, .words = {"8", "32"}}},
         .plan = as_ssgd,
         .policy = make_lb_bsp_policy},
        {.name = "sync-switch",
         .parameters = {{.name = "SHARE", .most = ModeParameter::Most::kOne, .whole = false}},
         .plan = sync_switch,
         .policy = make_sync_switch_policy},
        {.name = "flexrr",
         .parameters = {{.name = "S", .fallback = kFlexClockBound}},
         .plan = flexrr,
         .policy = make_flexrr_policy},
        {.name = "ssgd-or-asgd",
         .parameters = {},
         .plan = as_ssgd,
         .policy = make_ssgd_or_asgd_policy,
         .chooses = true},
        {.name = "star-h",
         .rings = true,
         .parameters = {},
         .plan = all_of_them,
         .policy = make_star_policy,
         .chooses = true},
        {.name = "star-h-exact",
         .parameters = {{.name = "CUT", .fallback = kStarRelativeCut, .whole = false}},
         .plan = as_ssgd,
         .policy = make_star_exact_policy,
         .chooses = true},
        {.name = "star-ml",
         .rings = true,
         .parameters = {},
         .plan = all_of_them,
         .policy = make_star_ml_policy,
         .chooses = true},
        {.name = "adaptive",
         .rings = true,
         .parameters = {},
         .plan = all_of_them,
         .policy = make_adaptive_policy,
         .chooses = true},
    };
}

}  // namespace cohort
