#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/words.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/plan.hpp"

namespace cohort {

/// How gradients are exchanged.
enum class Architecture : std::uint8_t { kServers, kRing };

template <>
inline constexpr auto kWords<Architecture> = std::to_array<std::string_view>({"servers", "ring"});

/// The parameters that workers with lagging pushes get, because of momentum.
enum class StaleMomentum : std::uint8_t {
    kLookAhead,  ///< the parameters extrapolated by the worker's lag
    kKeep        ///< the present parameters
};

template <>
inline constexpr auto kWords<StaleMomentum> = std::to_array<std::string_view>({"look-ahead",
                                                                               "keep"});
template <>
inline constexpr auto kWords<SyncPlan::LrUnit> =
    std::to_array<std::string_view>({"per-sample", "published", "adascale"});

/// What a plan is made for.
struct ModeSetting {
    Architecture architecture = Architecture::kServers;
    std::vector<bool> live;  ///< by worker: it takes part; the plan's N is the number of true
    std::int64_t batch = 1;  ///< b: samples of a lease at the start of the run
    std::int64_t workers_at_start = 0;  ///< with `batch`: B; 0: live.size()
    /// A resumed run may have fewer workers than at its start: mode parameters above the number of
    /// workers are then no error and mean the same as after a loss of workers.
    bool continued = false;
    std::int64_t samples_before = 0;  ///< applied before this mode was in force
    StaleMomentum stale_momentum = StaleMomentum::kLookAhead;
    SyncPlan::LrUnit lr_rule = SyncPlan::LrUnit::kPerSample;
    double lr_scale = 1;  ///< SyncPlan::lr_scale, for a mode without "@SCALE"
    /// Measured seconds of a worker's own iteration, by worker; empty, or 0 for one: not known.
    /// `dynamic`, `ring:x`, `cutoff` and the like group and rank workers by it.
    std::vector<double> own_seconds;
    /// For choosers: times of workers will be known; those of a deterministic run are not.
    bool measured = true;
    JobFacts job = {};            ///< for choosers
    ChooserOptions chooser = {};  ///< for choosers
    /// For choosers: whether a plan that they want may be had. Whoever shares nodes among jobs sets
    /// it; empty: always. @param worth  progress per sample, relative to the plan in force
    std::function<bool(const SyncPlan& wanted, double worth)> admits = {};
};

/// B: one push of each worker that the run started with.
[[nodiscard]] std::int64_t reference_batch_of(const ModeSetting& setting) noexcept;

struct ModeEntry;  // of the table of modes

/// A mode as `--mode` writes it, understood.
struct Mode {
    std::string text;                     ///< "static:4", "hier:2:8", "asgd@0.5"
    const ModeEntry* entry = nullptr;     ///< what it is called in the table
    std::vector<double> values = {};      ///< of its parameters, in range
    std::optional<double> lr_scale = {};  ///< the SCALE behind '@'

    /// The text without the scale.
    [[nodiscard]] std::string unscaled() const { return text.substr(0, text.find('@')); }
};

/// Errors: UsageError for an unknown name, a parameter out of range, or a mode that the
/// architecture cannot run, each with what is possible.
[[nodiscard]] Mode parse_mode(std::string_view text, const ModeSetting& setting);

/// The plan of a mode. Workers that are not live have no place in it.
[[nodiscard]] SyncPlan make_plan(const Mode& mode, const ModeSetting& setting);
/// The same of a mode's text. Errors: UsageError, as parse_mode.
[[nodiscard]] SyncPlan make_plan(std::string_view mode, const ModeSetting& setting);

/// The plan "dynamic" with these groups of live workers; each group waits for all its members.
[[nodiscard]] SyncPlan grouped_plan(const std::vector<std::vector<int>>& groups,
                                    const ModeSetting& setting);

/// The mode for an architecture when none is named: "ring" or "ssgd".
[[nodiscard]] std::string default_mode(Architecture architecture);

/// Names with their parameters, for help texts: "static:X"; optional parameters in brackets. The
/// default mode is the first.
[[nodiscard]] std::vector<std::string> mode_names(Architecture architecture);

/// True when every update waits for all workers of the plan, so that all hold the same parameters
/// after it.
[[nodiscard]] bool is_synchronous(const SyncPlan& plan);

}  // namespace cohort
