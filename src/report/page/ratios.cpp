// log TTA = log samples - log pace, pair by pair; intervals come from drawing seeds, since all
// modes and patterns share a seed's parameters and order.
#include "report/page/ratios.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace cohort {
namespace {

constexpr double kNoRatio = std::numeric_limits<double>::quiet_NaN();

/// Sum and count of numbers, by seed.
struct SeedSum {
    double sum = 0;
    double count = 0;
};

double mean_of(const std::vector<SeedSum>& sums, std::span<const std::uint32_t> seeds) {
    SeedSum all;
    for (const std::uint32_t seed : seeds) {
        all.sum += sums[seed].sum;
        all.count += sums[seed].count;
    }
    return all.count > 0 ? all.sum / all.count : kNoRatio;
}

std::size_t index_of_seed(const SweepResults& results, const ExperimentSeed& seed) {
    return static_cast<std::size_t>(std::ranges::find(results.seeds, seed) - results.seeds.begin());
}

}  // namespace

/// None: the run has no target where others have one, or has no pace.
std::optional<RunPairs::LogRun> RunPairs::log_run(const RunRow& row, bool has_target) {
    if ((has_target && !cohort::has_target(row)) || row.samples_per_s <= 0) {
        return std::nullopt;
    }
    if (!has_target) {
        return LogRun{.pace = std::log(row.samples_per_s)};
    }
    if (row.tta_virtual_s && row.samples_to_target && *row.tta_virtual_s > 0) {
        const double samples = std::log(static_cast<double>(*row.samples_to_target));
        return LogRun{.samples = samples, .pace = samples - std::log(*row.tta_virtual_s)};
    }
    const auto budget = static_cast<double>(std::max(row.budget_samples, row.samples));
    return LogRun{.samples = std::log(budget), .pace = std::log(row.samples_per_s), .missed = true};
}

RunPairs::RunPairs(const SweepResults& results, bool has_target)
    : seeds_(results.seeds.size()),
      patterns_(results.patterns.size()),
      has_target_(has_target),
      bootstrap_(seeds_) {
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        auto& cells = runs_.emplace_back(patterns_);
        for (std::size_t pattern = 0; pattern < patterns_; ++pattern) {
            cells[pattern].resize(seeds_);
            for (const RunRow& row : results.rows) {
                const std::size_t seed = index_of_seed(results, row.seed);
                if (seed < seeds_ && row.mode == results.modes[mode].name &&
                    row.pattern == results.patterns[pattern]) {
                    cells[pattern][seed] = log_run(row, has_target);
                }
            }
        }
        if (results.modes[mode].fixed) {
            fixed_.push_back(mode);
        }
    }
}

std::vector<RunPairs::Pairs> RunPairs::pair_up(std::size_t mode, const Opponent& opponent) const {
    std::vector<Pairs> patterns;
    for (std::size_t pattern = 0; pattern < patterns_; ++pattern) {
        Pairs& pairs = patterns.emplace_back(seeds_);
        for (std::size_t seed = 0; seed < seeds_; ++seed) {
            const std::optional<std::size_t> other = opponent(pattern, seed);
            if (other && run(mode, pattern, seed) && run(*other, pattern, seed)) {
                pairs[seed] =
                    Pair{.own = *run(mode, pattern, seed), .other = *run(*other, pattern, seed)};
            }
        }
    }
    return patterns;
}

Ratio RunPairs::ratio(const std::vector<Pairs>& patterns) const {
    Ratio ratio;
    std::vector<SeedSum> samples(seeds_);
    std::vector<SeedSum> pace(seeds_);
    std::vector<SeedSum> tta(seeds_);
    const auto add = [](SeedSum& sum, double difference) {
        sum.sum += difference;
        sum.count += 1;
    };
    for (const Pairs& pairs : patterns) {
        for (std::size_t seed = 0; seed < seeds_; ++seed) {
            if (const std::optional<Pair>& pair = pairs[seed]) {
                ++ratio.pairs;
                ratio.misses += pair->own.missed ? 1U : 0U;
                ratio.other_misses += pair->other.missed ? 1U : 0U;
                add(samples[seed], pair->own.samples - pair->other.samples);
                add(pace[seed], pair->own.pace - pair->other.pace);
                add(tta[seed], pair->own.tta() - pair->other.tta());
            }
        }
    }
    const auto interval = [this](const std::vector<SeedSum>& sums) {
        return bootstrap_([&sums](auto drawn) { return mean_of(sums, drawn); });
    };
    if (ratio.pairs > 0) {
        ratio.tta = interval(tta);
        ratio.samples = interval(samples);
        ratio.pace = interval(pace);
    }
    return ratio;
}

std::vector<Ratio> RunPairs::ratios(const std::vector<Pairs>& patterns) const {
    std::vector<Ratio> found;
    std::ranges::transform(patterns, std::back_inserter(found),
                           [this](const Pairs& pairs) { return ratio({pairs}); });
    return found;
}

Duel RunPairs::duel(std::size_t mode, std::size_t other) const {
    const std::vector<Pairs> patterns =
        pair_up(mode, [other](std::size_t /*pattern*/, std::size_t /*seed*/) { return other; });
    return {.mode = mode, .other = other, .by_pattern = ratios(patterns), .all = ratio(patterns)};
}

std::optional<std::size_t> RunPairs::best_without(std::size_t pattern, std::size_t seed) const {
    std::optional<std::size_t> best;
    std::pair<std::size_t, double> least;  // misses, then the sum of log times
    for (const std::size_t mode : fixed_) {
        std::pair<std::size_t, double> score;
        for (std::size_t other = 0; other < seeds_; ++other) {
            if (other != seed) {
                score.first += run(mode, pattern, other)->missed ? 1U : 0U;
                score.second += run(mode, pattern, other)->tta();
            }
        }
        if (!best || score < least) {
            best = mode;
            least = score;
        }
    }
    return best;
}

OracleChoices RunPairs::choose_oracle() const {
    OracleChoices choices(patterns_, std::vector<std::optional<std::size_t>>(seeds_));
    for (std::size_t pattern = 0; pattern < patterns_ && has_target_ && seeds_ > 1; ++pattern) {
        const bool complete = std::ranges::all_of(fixed_, [&](std::size_t mode) {
            const auto& runs = runs_[mode][pattern];
            return std::ranges::all_of(runs, [](const auto& one) { return one.has_value(); });
        });
        for (std::size_t seed = 0; seed < seeds_ && complete; ++seed) {
            choices[pattern][seed] = best_without(pattern, seed);
        }
    }
    return choices;
}

Regret RunPairs::regret(std::size_t mode, const OracleChoices& oracle) const {
    const std::vector<Pairs> patterns = pair_up(
        mode, [&oracle](std::size_t pattern, std::size_t seed) { return oracle[pattern][seed]; });
    Regret regret{.by_pattern = ratios(patterns)};
    std::vector<std::vector<SeedSum>> sums;
    for (std::size_t pattern = 0; pattern < patterns_; ++pattern) {
        if (regret.by_pattern[pattern].pairs == 0) {
            continue;
        }
        if (regret.patterns++ == 0 || regret.by_pattern[pattern].tta.value >
                                          regret.by_pattern[regret.worst_pattern].tta.value) {
            regret.worst_pattern = pattern;
        }
        std::vector<SeedSum>& by_seed = sums.emplace_back(seeds_);
        for (std::size_t seed = 0; seed < seeds_; ++seed) {
            if (const std::optional<Pair>& pair = patterns[pattern][seed]) {
                by_seed[seed] = {.sum = pair->own.tta() - pair->other.tta(), .count = 1};
            }
        }
    }
    const auto over_patterns = [&](double (*statistic)(std::vector<double>)) {
        return bootstrap_([&](auto drawn) {
            std::vector<double> means;
            for (const std::vector<SeedSum>& by_seed : sums) {
                if (const double mean = mean_of(by_seed, drawn); !std::isnan(mean)) {
                    means.push_back(mean);
                }
            }
            return means.empty() ? kNoRatio : statistic(std::move(means));
        });
    };
    if (regret.patterns > 0) {
        regret.median = over_patterns(median);
        regret.worst = over_patterns(
            [](std::vector<double> means) { return *std::ranges::max_element(means); });
    }
    return regret;
}

}  // namespace cohort
