#include "jobs/cli/job_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

void check_momentum(const CommandContext& context, const std::string& optimizer, double momentum,
                    double standard) {
    const auto given = [](const EffectiveOption& option) {
        return option.name == "momentum" && option.origin == "command line";
    };
    const bool asked =
        momentum != standard || std::any_of(context.options.begin(), context.options.end(), given);
    if (asked && optimizer != "sgd") {
        fail<UsageError>({.where = "--momentum",
                          .what = optimizer + " has no momentum to set",
                          .expected = "--optimizer sgd",
                          .got = fmt::format("{}", momentum)});
    }
}

}  // namespace cohort
