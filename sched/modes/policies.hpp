#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/sched/policy.hpp"

namespace cohort {

// A policy for each mode that changes plans or batches during a run.
// @param mode  as the command line writes it  @param values  of its parameters

[[nodiscard]] std::unique_ptr<ModePolicy> make_dynamic_policy(std::string mode,
                                                              const ModeSetting& setting,
                                                              const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_ring_policy(std::string mode,
                                                           const ModeSetting& setting,
                                                           const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_cutoff_policy(std::string mode,
                                                             const ModeSetting& setting,
                                                             const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_lb_bsp_policy(std::string mode,
                                                             const ModeSetting& setting,
                                                             const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_sync_switch_policy(
    std::string mode, const ModeSetting& setting, const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_flexrr_policy(std::string mode,
                                                             const ModeSetting& setting,
                                                             const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_ssgd_or_asgd_policy(
    std::string mode, const ModeSetting& setting, const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_star_policy(std::string mode,
                                                           const ModeSetting& setting,
                                                           const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_star_exact_policy(std::string mode,
                                                                 const ModeSetting& setting,
                                                                 const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_adaptive_policy(std::string mode,
                                                               const ModeSetting& setting,
                                                               const std::vector<double>& values);
[[nodiscard]] std::unique_ptr<ModePolicy> make_star_ml_policy(std::string mode,
                                                              const ModeSetting& setting,
                                                              const std::vector<double>& values);

[[nodiscard]] std::unique_ptr<ModePolicy> make_saps_policy(std::string mode,
                                                           const ModeSetting& setting,
                                                           const std::vector<double>& values);

/// saps:auto: D in reference batches for a noise scale, all in samples.
[[nodiscard]] double lag_bound_of(double noise_scale, double batch, double reference_batch);
/// The value of a parameter that the mode determines itself: "auto".
inline constexpr double kAutomatic = -1;

/// The policy of a mode, which also measures the rates of its plans (ModePolicy::take_windows).
[[nodiscard]] std::unique_ptr<ModePolicy> make_recording_policy(const std::string& mode,
                                                                const ModeSetting& setting);

/// sync-switch's asgd: under the published rule a push of b of the B samples moves the parameters
/// by b/B of the learning rate, which is that of ssgd's updates.
[[nodiscard]] SyncPlan asynchronous_plan(const ModeSetting& setting);

}  // namespace cohort
