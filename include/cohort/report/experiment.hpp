#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// Options of `cohort simulate`: long names without dashes, and values; flags are "true", "false".
using OptionList = std::vector<std::pair<std::string, std::string>>;

/// A row of the table.
struct ExperimentMode {
    std::string name;    ///< name in tables
    OptionList options;  ///< "mode" among them, lr not
    std::vector<double>
        lr;  ///< rates to choose from by tuning; one rate: used without a search; none: the job's
    std::string role;   ///< "ours", "baseline" or empty
    std::string cites;  ///< publication that it follows
    /// The oracle may choose the mode: it stays one mode from start to end, though it may regroup
    /// or rebalance. False for schedules and for modes that turn into other modes.
    bool fixed = true;
    bool reference = false;  ///< demands of other modes are given relative to this mode's
    bool versus = false;     ///< a table compares its times with every other mode's
};

/// A column of the table.
struct ExperimentPattern {
    std::string name;
    OptionList options;  ///< "pattern" or "trace" among them
};

/// Seeds of a run: one for everything random in the job, one for everything random in the pattern.
struct ExperimentSeed {
    std::uint64_t seed = 1;
    std::uint64_t pattern_seed = 1;
    friend bool operator==(const ExperimentSeed&, const ExperimentSeed&) = default;
};

/// The search for learning rates, the same for all modes.
struct ExperimentTuning {
    ExperimentPattern pattern{.name = "healthy", .options = {{"pattern", "healthy"}}};
    std::vector<ExperimentSeed> seeds;
    OptionList options;  ///< options that differ from the table's runs
};

/// modes x patterns x seeds, and the search for learning rates before.
struct Experiment {
    std::string title;
    OptionList job;  ///< options of all runs
    std::vector<ExperimentMode> modes;
    std::vector<ExperimentPattern> patterns;
    std::vector<ExperimentSeed> seeds;
    ExperimentTuning tuning;
};

/// Returns the error of an option of `cohort simulate` and its value; empty: no error.
using OptionCheck = std::function<std::string(const std::string& name, const std::string& value)>;

/// Reads experiment.toml (docs/sweeps.md). `overrides` replace options of [job].
/// Errors: FileError when the file cannot be read or is not TOML, UsageError naming file, line and
/// key for an unknown key, an invalid value, two modes or patterns of one name.
[[nodiscard]] Experiment read_experiment(const std::string& path, const OptionList& overrides,
                                         const OptionCheck& check);

/// Sets an option, or replaces it.
void set_option(OptionList& options, const std::string& name, const std::string& value);
[[nodiscard]] bool has_option(const OptionList& options, const std::string& name);
/// The value of an option; empty when the option is not in the list.
[[nodiscard]] std::string option_of(const OptionList& options, const std::string& name);

}  // namespace cohort
