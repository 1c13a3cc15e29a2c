#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "cohort/core/error.hpp"
#include "cohort/report/sweep_results.hpp"

namespace cohort {
namespace {

/// A result given by name.
struct Single {
    RunRow row;
    OptionList options;  ///< options that define its row of the table
    std::size_t mode = 0;
};

/// Options by which results of one row of a table may differ, or that change no result.
bool tells_rows_apart(const std::string& name) {
    constexpr std::array<std::string_view, 7> kOthers{"seed", "pattern-seed", "pattern", "trace",
                                                      "out",  "overwrite",    "threads"};
    return std::ranges::find(kOthers, name) == kOthers.end();
}

/// Errors: FileError; UsageError when the file is given twice.
void check_new(const std::string& file, std::vector<std::filesystem::path>& seen) {
    std::error_code ignored;
    const std::filesystem::path path = std::filesystem::weakly_canonical(file, ignored);
    if (std::ranges::find(seen, path) != seen.end()) {
        fail<UsageError>({.where = file,
                          .what = "the same result twice",
                          .expected = "each one once, or medians count it twice"});
    }
    seen.push_back(path);
}

Single read_single(const std::string& file) {
    const SimulationResult result = read_result(file);
    Single single{.row = make_row(result, file), .options = {}};
    for (const auto& option : result.options) {
        if (tells_rows_apart(option.first)) {
            single.options.push_back(option);
        }
    }
    return single;
}

/// A mode per set of options, not yet named by the distinguishing options. Errors: UsageError for
/// two results of one run.
std::vector<ExperimentMode> group(std::vector<Single>& singles) {
    std::vector<ExperimentMode> modes;
    for (Single& single : singles) {
        single.mode = static_cast<std::size_t>(
            std::ranges::find(modes, single.options, &ExperimentMode::options) - modes.begin());
        if (single.mode == modes.size()) {
            modes.push_back({.name = single.row.mode, .options = single.options});
        }
        for (const Single* other = singles.data(); other != &single; ++other) {
            if (other->mode == single.mode && other->row.pattern == single.row.pattern &&
                other->row.seed == single.row.seed) {
                fail<UsageError>({.where = single.row.file,
                                  .what = "the same run as in " + other->row.file,
                                  .expected = "each one once, or medians count it twice"});
            }
        }
    }
    return modes;
}

/// The mode and every option that differs in another row of the same mode.
std::string name_among(const ExperimentMode& own, const std::vector<ExperimentMode>& modes) {
    std::string name = own.name;
    for (const auto& [option, value] : own.options) {
        const bool differs = std::ranges::any_of(modes, [&](const auto& other) {
            return other.name == own.name && option_of(other.options, option) != value;
        });
        if (differs) {
            name.append(", ").append(option).append("=").append(value);
        }
    }
    return name;
}

template <class T>
void add_new(std::vector<T>& list, const T& value) {
    if (std::ranges::find(list, value) == list.end()) {
        list.push_back(value);
    }
}

}  // namespace

SweepResults results_of_files(const std::vector<std::string>& files) {
    std::vector<Single> singles;
    std::vector<std::filesystem::path> seen;
    for (const std::string& file : files) {
        check_new(file, seen);
        singles.push_back(read_single(file));
    }
    const std::vector<ExperimentMode> modes = group(singles);
    SweepResults results;
    results.modes = modes;
    for (ExperimentMode& mode : results.modes) {
        mode.name = name_among(mode, modes);
    }
    for (Single& single : singles) {
        ExperimentMode& mode = results.modes[single.mode];
        single.row.mode = mode.name;
        mode.fixed = mode.fixed && single.row.switches == 0;
        add_new(results.patterns, single.row.pattern);
        add_new(results.seeds, single.row.seed);
        results.rows.push_back(std::move(single.row));
    }
    results.planned = static_cast<std::int64_t>(results.rows.size());
    return results;
}

}  // namespace cohort
