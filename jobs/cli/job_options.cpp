#include "jobs/cli/job_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

void check_momentum(const CommandContext& context, const LearningOptions& options,
                    double standard) {
    const auto given = [](const EffectiveOption& option) {
        return option.name == "momentum" && option.origin == "command line";
    };
    const bool asked = options.momentum != standard ||
                       std::any_of(context.options.begin(), context.options.end(), given);
    if (asked && options.optimizer != OptimizerKind::kSgd) {
        fail<UsageError>(
            {.where = "--momentum",
             .what = fmt::format("{} has no momentum to set", word_of(options.optimizer)),
             .expected = "--optimizer sgd",
             .got = fmt::format("{}", options.momentum)});
    }
}

}  // namespace cohort
