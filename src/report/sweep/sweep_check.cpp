#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "report/sweep/sweep.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

/// Files that runs read, each opened once.
class Files {
public:
    /// Errors: FileError for a file that is missing or damaged, UsageError for one that does not
    /// fit the options.
    void check(const SimulateOptions& options) {
        if (!profiles_.contains(options.profile)) {
            profiles_.emplace(options.profile, load_profile(options.profile));
        }
        check_profile(options, profiles_.at(options.profile));
        if (!options.trace.empty()) {
            const ClusterShape shape{.workers = options.workers, .nodes = options.nodes};
            if (traces_.insert({options.trace, shape.workers, shape.nodes}).second) {
                (void)read_scenario(options.trace, shape, options.pattern_seed);
            }
        }
        if (!options.no_train && data_.insert(options.data).second) {
            Hdf5Thread thread;
            for (const char* group : {"train", "test"}) {
                (void)open_dataset(options.data, group, thread);
            }
        }
    }

private:
    std::map<std::string, ClusterProfile> profiles_;
    std::set<std::tuple<std::string, int, int>> traces_;  ///< with workers and nodes
    std::set<std::string> data_;
};

}  // namespace

void check_experiment(const Experiment& experiment, const SweepHooks& hooks) {
    std::vector<std::optional<double>> rates;
    for (const ExperimentMode& mode : experiment.modes) {
        rates.push_back(mode.lr.empty() ? std::nullopt : std::optional(mode.lr.front()));
    }
    std::vector<PlannedRun> runs = plan_tuning(experiment);
    const std::vector<PlannedRun> table = plan_table(experiment, rates);
    runs.insert(runs.end(), table.begin(), table.end());
    Files files;
    for (const PlannedRun& run : runs) {
        try {
            files.check(resolved(hooks.options(run)));
        } catch (const UsageError& error) {
            fail<UsageError>({.where = fmt::format("mode {}, pattern {}",
                                                   experiment.modes[run.mode].name, run.pattern),
                              .what = "cannot be simulated",
                              .got = error.what()});
        }
    }
}

}  // namespace cohort
