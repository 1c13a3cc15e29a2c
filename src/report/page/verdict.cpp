#include "report/page/report_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/page/cell_text.hpp"

namespace cohort {
namespace {

/// With fewer seeds intervals are too narrow (ClusterBootstrap).
constexpr std::size_t kEnoughSeeds = 25;
/// Smallest logarithm of a ratio that is printed as a change.
constexpr double kShown = 0.0005;

std::string joined(const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, ", "));
}

class Verdict {
public:
    Verdict(const SweepResults& results, const Comparison& comparison)
        : results_(results), comparison_(comparison), intervals_(results.seeds.size() > 1) {}

    [[nodiscard]] std::string of(std::size_t mode) const {
        const Ratio& all = comparison_.to_reference[mode].all;
        const std::string& name = results_.modes[mode].name;
        const std::string& reference = results_.modes[comparison_.reference].name;
        if (all.pairs == 0) {
            return fmt::format("{}: no run beside one of {} yet.", name, reference);
        }
        std::string text =
            fmt::format("{}: {} {} that of {} over {}", name,
                        comparison_.has_target ? "time to the target" : "time for a sample",
                        apart_text(all.tta, intervals_), reference, patterns_text(mode));
        if (comparison_.has_target) {
            text += fmt::format(" (samples {}, pace {})", change(all.samples), change(all.pace));
        }
        text += ", " + where_above(mode, reference);
        if (const std::string misses = misses_text(all, reference); !misses.empty()) {
            text += "; " + misses;
        }
        return text + regret(mode) + losses(mode) + ".";
    }

private:
    [[nodiscard]] std::string change(const Interval& ratio) const {
        return change_text(ratio, intervals_);
    }

    /// "12 patterns", "5 of 12 patterns".
    [[nodiscard]] std::string patterns_text(std::size_t mode) const {
        const std::vector<Ratio>& ratios = comparison_.to_reference[mode].by_pattern;
        const auto compared =
            std::ranges::count_if(ratios, [](const Ratio& ratio) { return ratio.pairs > 0; });
        const auto all = static_cast<std::ptrdiff_t>(ratios.size());
        return fmt::format("{}{} pattern{}", compared < all ? fmt::format("{} of ", compared) : "",
                           all, all == 1 ? "" : "s");
    }

    /// A mode that misses the target more often than another one is slower, whatever their ratio,
    /// which counts a miss with the least time that it can have needed.
    [[nodiscard]] static bool slower(const Ratio& ratio) {
        return ratio.tta.low > kShown || ratio.misses > ratio.other_misses;
    }

    [[nodiscard]] std::string how(const Ratio& ratio, const std::string& other) const {
        return ratio.misses > ratio.other_misses ? misses_text(ratio, other) : change(ratio.tta);
    }

    /// Patterns under which the mode takes longer than the reference.
    [[nodiscard]] std::string where_above(std::size_t mode, const std::string& reference) const {
        std::vector<std::string> above;
        std::vector<std::string> unclear;
        const std::vector<Ratio>& ratios = comparison_.to_reference[mode].by_pattern;
        for (std::size_t pattern = 0; pattern < ratios.size(); ++pattern) {
            const Ratio& ratio = ratios[pattern];
            if (ratio.pairs > 0 && (ratio.tta.value > kShown || slower(ratio))) {
                (slower(ratio) ? above : unclear)
                    .push_back(
                        fmt::format("{} ({})", results_.patterns[pattern], how(ratio, reference)));
            }
        }
        if (above.empty()) {
            return unclear.empty()
                       ? "never above it on any"
                       : "not told apart from it on " + joined(unclear) + ", above it on no other";
        }
        return fmt::format("above it on {}", joined(above)) +
               (unclear.empty() ? "" : ", not told apart from it on " + joined(unclear));
    }

    [[nodiscard]] std::string regret(std::size_t mode) const {
        const Regret& regret = comparison_.regrets[mode];
        return regret.patterns == 0
                   ? ""
                   : fmt::format("; regret {} in the median pattern, {} in the worst ({})",
                                 change(regret.median), change(regret.worst),
                                 results_.patterns[regret.worst_pattern]);
    }

    /// Other modes than the reference that are not slower over all patterns.
    [[nodiscard]] std::string losses(std::size_t mode) const {
        std::vector<std::string> faster;
        std::vector<std::string> level;
        for (const Duel& duel : comparison_.duels) {
            if (duel.mode != mode || duel.other == comparison_.reference || duel.all.pairs == 0) {
                continue;
            }
            const std::string& other = results_.modes[duel.other].name;
            if (slower(duel.all)) {
                faster.push_back(fmt::format("{} ({})", other, how(duel.all, other)));
            } else if (duel.all.tta.high > -kShown) {
                level.push_back(other);
            }
        }
        return (faster.empty() ? "" : "; slower than " + joined(faster)) +
               (level.empty() ? "" : "; not told apart from " + joined(level));
    }

    const SweepResults& results_;
    const Comparison& comparison_;
    bool intervals_;
};

}  // namespace

std::vector<std::string> verdicts(const SweepResults& results, const Comparison& comparison) {
    std::vector<std::string> sentences;
    for (const std::size_t mode : comparison.judged) {
        sentences.push_back(Verdict(results, comparison).of(mode));
    }
    if (!sentences.empty() && results.seeds.size() < kEnoughSeeds) {
        sentences.push_back(
            results.seeds.size() == 1
                ? std::string("One seed: chance cannot be told from difference.")
                : fmt::format("With {} seeds the intervals are too narrow; {} are wanted.",
                              results.seeds.size(), kEnoughSeeds));
    }
    return sentences;
}

}  // namespace cohort
