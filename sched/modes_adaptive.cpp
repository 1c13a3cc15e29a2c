#include "mode_table.hpp"
#include "policies.hpp"

// Modes that are a policy over other modes' plans; their plan is the one that they start with.
namespace cohort {
namespace {

constexpr double kClockBound = 3;  ///< flexrr, as ssp

SyncPlan as_ssgd(const ModeRequest& request) {
    return make_plan("ssgd", request.setting);
}

/// Nothing to do for ssgd with a share of 0.
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
         .parameters = {},
         .plan = as_ssgd,
         .policy = make_lb_bsp_policy},
        {.name = "sync-switch",
         .parameters = {{.name = "SHARE", .most = ModeParameter::Most::kOne, .whole = false}},
         .plan = sync_switch,
         .policy = make_sync_switch_policy},
        {.name = "flexrr",
         .parameters = {{.name = "S", .fallback = kClockBound}},
         .plan = flexrr,
         .policy = make_flexrr_policy},
    };
}

}  // namespace cohort
