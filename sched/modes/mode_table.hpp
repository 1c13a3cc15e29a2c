#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/sched/modes.hpp"
#include "cohort/sched/policy.hpp"

namespace cohort {

/// The value of a parameter that the mode determines itself: "auto".
inline constexpr double kAutomatic = -1;

/// A parameter of a mode: a number, or one of a few words.
struct ModeParameter {
    enum class Most : std::uint8_t { kAny, kOne, kWorkers, kBelowWorkers };
    static constexpr double kMost = 1e6;  ///< of any number: products with batches stay small
    std::string_view name;
    double least = 0;
    Most most = Most::kAny;
    std::optional<double> fallback = {};       ///< default; none: the parameter is required
    bool whole = true;                         ///< no fractions
    bool automatic = false;                    ///< "auto" is allowed: kAutomatic
    std::vector<std::string_view> words = {};  ///< allowed words; the value is an index
};

/// Indices of the workers that take part, ascending.
[[nodiscard]] std::vector<int> live_workers(const ModeSetting& setting);

/// Input of a function that makes a plan.
struct ModeRequest {
    const ModeSetting& setting;
    std::vector<double> values;  ///< of the parameters, in range
    std::vector<int> live;       ///< worker indices, ascending, at least one

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(live.size()); }
    /// A parameter that is a whole number.
    [[nodiscard]] int whole(std::size_t i) const { return static_cast<int>(values.at(i)); }
    /// A parameter that counts workers, limited to the live workers.
    [[nodiscard]] int of_workers(std::size_t i) const;
    /// Samples of `pushes` pushes of the usual size.
    [[nodiscard]] std::int64_t samples_of(std::int64_t pushes) const noexcept {
        return pushes * setting.batch;
    }
};

/// A mode: a name, its parameters, and a function that makes its plan.
struct ModeEntry {
    std::string_view name;
    bool servers = true;
    bool rings = false;
    std::vector<ModeParameter> parameters;
    SyncPlan (*plan)(const ModeRequest& request) = nullptr;
    /// Makes the policy; null: the plan stays as it is.
    std::unique_ptr<ModePolicy> (*policy)(Mode mode, const ModeSetting& setting) = nullptr;
    char separator = ':';  ///< between parameters
    bool chooses = false;  ///< a chooser of plans, useless with a single worker
};

/// All modes, in the order of docs/modes.md.
[[nodiscard]] const std::vector<ModeEntry>& mode_table();
/// The setting for plans with this scale of the learning rate.
[[nodiscard]] ModeSetting scaled(ModeSetting setting, double lr_scale);

// The parts of the table.
[[nodiscard]] std::vector<ModeEntry> waiting_modes();
[[nodiscard]] std::vector<ModeEntry> free_modes();
[[nodiscard]] std::vector<ModeEntry> grouped_modes();
[[nodiscard]] std::vector<ModeEntry> balancing_modes();
[[nodiscard]] std::vector<ModeEntry> adaptive_modes();

/// One cohort of all live workers.
[[nodiscard]] SyncPlan one_cohort(const ModeRequest& request, int quorum);
/// A cohort for each live worker.
[[nodiscard]] SyncPlan cohorts_of_one(const ModeRequest& request);

}  // namespace cohort
