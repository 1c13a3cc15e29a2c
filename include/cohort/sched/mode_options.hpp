#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/modes.hpp"

namespace cohort {

/// One entry of `--mode-schedule`.
struct ScheduledMode {
    std::int64_t samples = 0;  ///< from which on
    Mode mode;
};

/// What the user asked for.
struct ModeChoice {
    std::vector<ScheduledMode> modes;  ///< ascending, the first at 0; at least one
    bool deterministic = false;
};

/// How gradients travel and who waits for whom, of any job.
struct ModeOptions {
    Architecture arch = Architecture::kServers;
    std::string mode;           ///< empty: ring or ssgd, by arch
    std::string mode_schedule;  ///< "0:ssgd,20000:static:6", in place of it
    StaleMomentum stale_momentum = StaleMomentum::kLookAhead;
    SyncPlan::LrUnit lr_rule = SyncPlan::LrUnit::kPerSample;
    double noise_scale = 0;  ///< adascale: phi, samples; 0: measured as training goes
    /// What mode and mode_schedule say, once the options are checked.
    std::vector<ScheduledMode> modes = {};

    /// The mode, or the list of them.
    [[nodiscard]] const std::string& mode_text() const noexcept {
        return mode_schedule.empty() ? mode : mode_schedule;
    }
};

/// "0:ssgd,20000:static:6,40000:dynamic": ascending, the first at 0. Errors: UsageError.
[[nodiscard]] std::vector<ScheduledMode> parse_mode_schedule(std::string_view text,
                                                             const ModeSetting& setting);

/// Fills in `mode` where nothing was chosen, and `modes`. Errors: UsageError for what cannot be.
void understand_modes(ModeOptions& options, const ModeSetting& setting);

/// What `options` say of plans; the rest as in `setting`.
[[nodiscard]] ModeSetting mode_setting(const ModeOptions& options, ModeSetting setting);

}  // namespace cohort
