#include "report/sweep/sweep_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

#include "cohort/core/statistics.hpp"
#include "data/file/text_file.hpp"

namespace cohort {
namespace {

/// FNV-1a, 64 bits.
class Hash {
public:
    void add(std::string_view text) {
        constexpr std::uint64_t kPrime = 0x100000001b3;
        for (const char c : text) {
            value_ = (value_ ^ static_cast<unsigned char>(c)) * kPrime;
        }
        value_ *= kPrime;  // separates parts
    }
    [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

private:
    std::uint64_t value_ = 0xcbf29ce484222325;
};

/// A text with only characters that are valid in file names everywhere.
std::string file_name_of(std::string_view text) {
    std::string name;
    for (const char c : text) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || c == '.' || c == '+' || c == '-';
        name += plain ? c : '-';
    }
    constexpr std::size_t kLongest = 40;
    return name.substr(0, kLongest);
}

std::uint64_t hash_of(const OptionList& options) {
    Hash hash;
    for (const auto& [name, value] : options) {
        hash.add(name);
        hash.add(value);
        std::error_code ignored;
        if ((name == "trace" || name == "profile") &&
            std::filesystem::is_regular_file(value, ignored)) {
            hash.add(read_text_file(value));
        }
    }
    return hash.value();
}

PlannedRun make_run(const Experiment& experiment, std::size_t mode_index,
                    const ExperimentPattern& pattern, const ExperimentSeed& seed,
                    std::optional<double> lr, const OptionList& more) {
    const ExperimentMode& mode = experiment.modes.at(mode_index);
    PlannedRun run{.mode = mode_index,
                   .pattern = pattern.name,
                   .seed = seed,
                   .lr = lr,
                   .options = experiment.job,
                   .key = {}};
    for (const OptionList* list : {&mode.options, &pattern.options, &more}) {
        for (const auto& [name, value] : *list) {
            set_option(run.options, name, value);
        }
    }
    if (lr) {
        set_option(run.options, "lr", fmt::format("{}", *lr));
    }
    set_option(run.options, "seed", fmt::format("{}", seed.seed));
    set_option(run.options, "pattern-seed", fmt::format("{}", seed.pattern_seed));
    std::ranges::sort(run.options);
    run.key =
        fmt::format("{}_{}_s{}{}_{:016x}", file_name_of(mode.name), file_name_of(pattern.name),
                    seed.seed, lr ? fmt::format("_lr{}", *lr) : "", hash_of(run.options));
    return run;
}

/// Median time and accuracy of a mode's results at a rate; none: a seed is missing.
struct LearningRateScore {
    double tta_s = 0;
    double accuracy = 0;
};

std::optional<LearningRateScore> score_of(const Experiment& experiment,
                                          const std::vector<TuningRow>& results,
                                          const std::string& mode, double lr) {
    std::vector<double> times;
    std::vector<double> accuracies;
    for (const ExperimentSeed& seed : experiment.tuning.seeds) {
        const auto found = std::ranges::find_if(results, [&](const auto& result) {
            return result.mode == mode && result.lr == lr && result.seed == seed;
        });
        if (found == results.end()) {
            return std::nullopt;
        }
        times.push_back(found->tta_virtual_s.value_or(std::numeric_limits<double>::infinity()));
        accuracies.push_back(found->accuracy);
    }
    return LearningRateScore{.tta_s = median(times), .accuracy = median(accuracies)};
}

std::optional<double> best_rate(const Experiment& experiment, const std::vector<TuningRow>& results,
                                const ExperimentMode& mode) {
    std::optional<double> best;
    LearningRateScore best_score;
    for (const double lr : mode.lr) {
        const std::optional<LearningRateScore> score = score_of(experiment, results, mode.name, lr);
        if (!score) {
            return std::nullopt;
        }
        if (!best || score->tta_s < best_score.tta_s ||
            (score->tta_s == best_score.tta_s && score->accuracy > best_score.accuracy)) {
            best = lr;
            best_score = *score;
        }
    }
    return best;
}

}  // namespace

std::vector<PlannedRun> plan_tuning(const Experiment& experiment) {
    std::vector<PlannedRun> runs;
    for (std::size_t mode = 0; mode < experiment.modes.size(); ++mode) {
        const std::vector<double>& rates = experiment.modes[mode].lr;
        if (rates.size() < 2) {
            continue;
        }
        for (const double lr : rates) {
            for (const ExperimentSeed& seed : experiment.tuning.seeds) {
                runs.push_back(make_run(experiment, mode, experiment.tuning.pattern, seed, lr,
                                        experiment.tuning.options));
            }
        }
    }
    return runs;
}

std::vector<PlannedRun> plan_table(const Experiment& experiment,
                                   const std::vector<std::optional<double>>& rates) {
    std::vector<PlannedRun> runs;
    for (std::size_t mode = 0; mode < experiment.modes.size(); ++mode) {
        if (!rates.at(mode) && experiment.modes[mode].lr.size() > 1) {
            continue;
        }
        for (const ExperimentPattern& pattern : experiment.patterns) {
            for (const ExperimentSeed& seed : experiment.seeds) {
                runs.push_back(make_run(experiment, mode, pattern, seed, rates[mode], {}));
            }
        }
    }
    return runs;
}

std::vector<std::string> arguments_of(const PlannedRun& run) {
    std::vector<std::string> arguments;
    for (const auto& [name, value] : run.options) {
        if (value == "true") {
            arguments.push_back("--" + name);
        } else if (value != "false") {
            arguments.push_back(fmt::format("--{}={}", name, value));
        }
    }
    return arguments;
}

TuningRow tuning_row(const PlannedRun& run, const RunRow& row) {
    return {.mode = row.mode,
            .lr = run.lr.value(),
            .seed = run.seed,
            .tta_virtual_s = row.tta_virtual_s,
            .accuracy = row.quality.value,
            .command = row.command};
}

std::vector<std::optional<double>> choose_rates(const Experiment& experiment,
                                                const std::vector<TuningRow>& results) {
    std::vector<std::optional<double>> rates;
    for (const ExperimentMode& mode : experiment.modes) {
        rates.push_back(mode.lr.size() > 1 ? best_rate(experiment, results, mode)
                        : mode.lr.empty()  ? std::nullopt
                                           : std::optional(mode.lr.front()));
    }
    return rates;
}

}  // namespace cohort
