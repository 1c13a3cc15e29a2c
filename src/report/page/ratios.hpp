#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "cohort/core/statistics.hpp"
#include "cohort/report/comparison.hpp"

namespace cohort {

/// [pattern][seed]: the best fixed mode by all other seeds.
using OracleChoices = std::vector<std::vector<std::optional<std::size_t>>>;

/// Runs of modes side by side, by pattern and seed.
class RunPairs {
public:
    /// @param results  must outlive this object  @param has_target  runs without a target do not
    /// count
    RunPairs(const SweepResults& results, bool has_target);

    [[nodiscard]] Duel duel(std::size_t mode, std::size_t other) const;
    /// For each seed of a pattern the fixed mode with the fewest misses, then the smallest mean of
    /// log times, over all *other* seeds. Needs every run of every fixed mode under the pattern,
    /// and two seeds.
    [[nodiscard]] OracleChoices choose_oracle() const;
    [[nodiscard]] Regret regret(std::size_t mode, const OracleChoices& oracle) const;

private:
    /// Time, samples and pace of a run to the target, in logarithms.
    struct LogRun {
        double samples = 0;
        double pace = 0;
        bool missed = false;
        [[nodiscard]] double tta() const { return samples - pace; }
    };
    struct Pair {
        LogRun own;
        LogRun other;
    };
    /// Pairs by seed.
    using Pairs = std::vector<std::optional<Pair>>;
    /// The mode that another one is paired with.
    using Opponent =
        std::function<std::optional<std::size_t>(std::size_t pattern, std::size_t seed)>;

    [[nodiscard]] static std::optional<LogRun> log_run(const RunRow& row, bool has_target);
    [[nodiscard]] const std::optional<LogRun>& run(std::size_t mode, std::size_t pattern,
                                                   std::size_t seed) const {
        return runs_[mode][pattern][seed];
    }
    [[nodiscard]] std::vector<Pairs> pair_up(std::size_t mode, const Opponent& opponent) const;
    [[nodiscard]] Ratio ratio(const std::vector<Pairs>& patterns) const;
    [[nodiscard]] std::vector<Ratio> ratios(const std::vector<Pairs>& patterns) const;
    [[nodiscard]] std::optional<std::size_t> best_without(std::size_t pattern,
                                                          std::size_t seed) const;

    std::size_t seeds_;
    std::size_t patterns_;
    bool has_target_;
    std::vector<std::size_t> fixed_;                                     ///< modes
    std::vector<std::vector<std::vector<std::optional<LogRun>>>> runs_;  ///< [mode][pattern][seed]
    ClusterBootstrap bootstrap_;
};

}  // namespace cohort
