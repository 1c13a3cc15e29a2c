#include <string_view>
#include <vector>

#include "sched/modes/adaptive/policy_adaptive.hpp"
#include "sched/modes/mode_table.hpp"

// Modes that are a policy over other modes' plans; the entry's plan is the initial one.
namespace cohort {
namespace {

/// star-h-exact: a multiple of the median own time; corresponds to the published 50 ms for
/// iterations of 100 ms.
constexpr double kStarRelativeCut = 0.5;

SyncPlan all_of_them(const ModeRequest& request) {
    return make_plan(default_mode(request.setting.architecture), request.setting);
}

}  // namespace

std::vector<ModeEntry> adaptive_modes() {
    const auto chooser = [](std::string_view name, bool rings, auto policy,
                            const std::vector<ModeParameter>& parameters = {}) -> ModeEntry {
        return {.name = name,
                .rings = rings,
                .parameters = parameters,
                .plan = all_of_them,
                .policy = policy,
                .chooses = true};
    };
    return {
        chooser("ssgd-or-asgd", false, make_ssgd_or_asgd_policy),
        chooser("star-h", true, make_star_policy),
        chooser("star-h-exact", false, make_star_exact_policy,
                {{.name = "CUT", .fallback = kStarRelativeCut, .whole = false}}),
        chooser("star-ml", true, make_star_ml_policy),
        chooser("adaptive", true, policy_of<AdaptivePolicy>),
    };
}

}  // namespace cohort
