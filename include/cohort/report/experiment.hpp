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
    std::string name;        ///< that tables call it
    OptionList options;      ///< "mode" among them, lr not
    std::vector<double> lr;  ///< to choose from by tuning; one: taken as it is; none: the job's
    std::string role;        ///< "ours", "baseline" or empty
    std::string cites;       ///< what it follows
    /// The oracle may choose it: it is one mode from start to end, though it may regroup or
    /// rebalance. False for schedules and modes that become another one.
    bool fixed = true;
    bool reference = false;  ///< demands of others are given relative to its demands
    bool versus = false;     ///< a table has its times relative to every other mode's
};

/// A column of the table.
struct ExperimentPattern {
    std::string name;
    OptionList options;  ///< "pattern" or "trace" among them
};

/// Of a run: everything random in the job, everything random in the pattern.
struct ExperimentSeed {
    std::uint64_t seed = 1;
    std::uint64_t pattern_seed = 1;
    friend bool operator==(const ExperimentSeed&, const ExperimentSeed&) = default;
};

/// How every mode's learning rate is chosen, the same way for all.
struct ExperimentTuning {
    ExperimentPattern pattern{.name = "healthy", .options = {{"pattern", "healthy"}}};
    std::vector<ExperimentSeed> seeds;
    OptionList options;  ///< that differ from the table's runs
};

/// modes x patterns x seeds, and the search for learning rates before.
struct Experiment {
    std::string title;
    OptionList job;  ///< of all runs
    std::vector<ExperimentMode> modes;
    std::vector<ExperimentPattern> patterns;
    std::vector<ExperimentSeed> seeds;
    ExperimentTuning tuning;
};

/// What is wrong with an option of `cohort simulate` and its value; empty: nothing.
using OptionCheck = std::function<std::string(const std::string& name, const std::string& value)>;

/// Reads experiment.toml (docs/sweeps.md). `overrides` replace options of [job].
/// Errors: FileError when the file cannot be read or is not TOML, UsageError naming file, line and
/// key for an unknown key, a value that cannot be, two modes or patterns of one name.
[[nodiscard]] Experiment read_experiment(const std::string& path, const OptionList& overrides,
                                         const OptionCheck& check);

/// Sets an option, or replaces it.
void set_option(OptionList& options, const std::string& name, const std::string& value);
[[nodiscard]] bool has_option(const OptionList& options, const std::string& name);
/// The value; empty when it is not there.
[[nodiscard]] std::string option_of(const OptionList& options, const std::string& name);

}  // namespace cohort
