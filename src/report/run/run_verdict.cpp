#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/units.hpp"
#include "report/page/cell_text.hpp"
#include "report/run/run_page.hpp"

namespace cohort {
namespace {

constexpr double kFewSeconds = 10;
/// An episode that ends within this share of the run before its end lasts until its end.
constexpr double kUntilEnd = 0.02;

std::string level_text(const RunHistory& run, const RunLevel& level) {
    if (level.loss) {
        return fmt::format("a test loss of {:.4g}", level.value);
    }
    return run.regression() ? fmt::format("R2 {:.4g}", level.value) : percent(level.value);
}

double best_quality(const RunHistory& run) {
    double best = -HUGE_VAL;
    for (const RunEvaluation& one : run.evaluations) {
        best = std::isfinite(test_quality(one)) ? std::max(best, test_quality(one)) : best;
    }
    return best;
}

bool ended(const RunHistory& run) {
    return run.summary || run.failure;
}

std::string duration_text(double seconds) {
    return seconds_text(seconds) + " s";
}

/// "trained for 29 s to 79.3 % accuracy", for a run without a level.
std::string outcome(const RunHistory& run) {
    std::string text = fmt::format("{} {}", ended(run) ? "trained for" : "has trained for",
                                   duration_text(run.end_s));
    if (run.evaluations.empty()) {
        text += fmt::format(", {} samples",
                            format_count(static_cast<std::uint64_t>(run.samples_applied)));
    } else {
        text += " to " + quality_text(run, test_quality(run.evaluations.back()));
    }
    return ended(run) ? text : text + " so far";
}

std::string missed(const RunHistory& run) {
    return fmt::format("{} within {}", ended(run) ? "not" : "not yet", duration_text(run.end_s));
}

/// Of one run.
std::string alone(const RunHistory& run, const std::optional<PageLevel>& level) {
    const std::string mode = run.mode();
    if (!level) {
        return fmt::format("{} {}", mode, outcome(run));
    }
    const auto time_s = time_to(run, level->level);
    if (time_s) {
        return fmt::format("{} reached {} after {}", mode, level->text, duration_text(*time_s));
    }
    return fmt::format(
        "{} {} {} within {} (best: {})", mode, ended(run) ? "did not reach" : "has not reached",
        level->text, duration_text(run.end_s),
        run.evaluations.empty() ? "no test yet" : quality_text(run, best_quality(run)));
}

/// Of several: the fastest first.
std::string compared(const std::vector<RunHistory>& runs, const std::optional<PageLevel>& level) {
    std::string text;
    if (!level) {
        for (const RunHistory& run : runs) {
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", run.label, outcome(run));
        }
        return text;
    }
    std::vector<std::pair<double, const RunHistory*>> order;
    for (const RunHistory& run : runs) {
        order.emplace_back(time_to(run, level->level).value_or(HUGE_VAL), &run);
    }
    std::ranges::stable_sort(order, {}, &std::pair<double, const RunHistory*>::first);
    const double first_s = order.front().first;
    for (const auto& [time_s, run] : order) {
        if (text.empty()) {
            text =
                std::isfinite(time_s)
                    ? fmt::format("{} reached {}{} after {}", run->label, level->text,
                                  level->own ? "" : ", which all reached,", duration_text(time_s))
                    : fmt::format("no run reached {}: {} {}", level->text, run->label,
                                  outcome(*run));
        } else if (std::isfinite(time_s)) {
            text += fmt::format(", {} after {} ({:.2g} times as long)", run->label,
                                duration_text(time_s), time_s / first_s);
        } else {
            text += fmt::format(", {} {}", run->label,
                                std::isfinite(first_s) ? missed(*run) : outcome(*run));
        }
    }
    return text;
}

/// The slowness of a run that cost most: of the worker that lost most by one cause.
struct Slowness {
    int worker = 0;
    StragglerCause cause = StragglerCause::kCpu;
    double cost = 0;
    double begin_s = 0;
    double end_s = 0;
    double slow_s = 0;      ///< in all
    double slowdown_s = 0;  ///< sum of slowdown x seconds
    bool whole = false;     ///< until the end of the run
    [[nodiscard]] double speed() const { return slow_s / slowdown_s; }
};

std::optional<Slowness> worst_slowness(const RunHistory& run) {
    std::map<std::pair<int, StragglerCause>, Slowness> all;
    for (const StragglerEpisode& slow : run.slow) {
        Slowness& one = all[{slow.worker, slow.cause}];
        one.begin_s = one.slow_s == 0 ? slow.begin_s : std::min(one.begin_s, slow.begin_s);
        one.worker = slow.worker;
        one.cause = slow.cause;
        one.cost += cost_s(slow);
        one.end_s = std::max(one.end_s, slow.end_s);
        one.slow_s += slow.duration_s();
        one.slowdown_s += slow.duration_s() * slow.slowdown;
    }
    const auto worst =
        std::ranges::max_element(all, {}, [](const auto& entry) { return entry.second.cost; });
    if (worst == all.end() || !(worst->second.cost > 0)) {
        return std::nullopt;
    }
    Slowness& one = worst->second;
    one.whole = one.end_s >= (1 - kUntilEnd) * run.end_s;
    return one;
}

std::string when_slow(const Slowness& slow) {
    return fmt::format("from {} {}", moment_text(slow.begin_s),
                       slow.whole ? "on" : "to " + moment_text(slow.end_s));
}

std::string percent_of_speed(double low, double high) {
    const auto whole = [](double share) { return std::lround(100 * share); };
    return whole(low) == whole(high) ? fmt::format("{} %", whole(low))
                                     : fmt::format("{} to {} %", whole(low), whole(high));
}

/// "; worker 3 ran at 25 % of the fastest worker's speed from 0.4 s on (cause: device)".
std::string slowness(const std::vector<RunHistory>& runs) {
    std::vector<std::pair<const RunHistory*, Slowness>> found;
    std::set<std::pair<int, StragglerCause>> kinds;
    for (const RunHistory& run : runs) {
        if (const auto slow = worst_slowness(run)) {
            found.emplace_back(&run, *slow);
            kinds.emplace(slow->worker, slow->cause);
        }
    }
    if (found.empty()) {
        return "";
    }
    const auto worst =
        std::ranges::max_element(found, {}, [](const auto& entry) { return entry.second.cost; });
    const bool same = kinds.size() == 1 && found.size() > 1 && found.size() == runs.size();
    double low = worst->second.speed();
    double high = low;
    for (const auto& [run, slow] : found) {
        low = same ? std::min(low, slow.speed()) : low;
        high = same ? std::max(high, slow.speed()) : high;
    }
    const std::string where = same              ? "in every run "
                              : runs.size() > 1 ? fmt::format("in {} ", worst->first->label)
                                                : "";
    return fmt::format("; {}worker {} ran at {} of the fastest worker's speed {} (cause: {})",
                       where, worst->second.worker, percent_of_speed(low, high),
                       when_slow(worst->second), word_of(worst->second.cause));
}

/// "; at 12 s rank 0 (host h1, pid 4711) has died, and the others went on from 12800 samples".
std::string takeovers(const std::vector<RunHistory>& runs) {
    std::string text;
    for (const RunHistory& run : runs) {
        for (const RunPart& part : run.parts) {
            if (!part.header.after_loss.empty()) {
                text += fmt::format("; {}at {} {}, and the others went on from {} samples",
                                    runs.size() > 1 ? fmt::format("in {} ", run.label) : "",
                                    moment_text(part.begin_s), part.header.after_loss,
                                    part.header.samples_applied);
            }
        }
    }
    return text;
}

/// "; worker 2 was lost at 12 s and joined again at 20 s".
std::string losses(const std::vector<RunHistory>& runs) {
    std::string text;
    for (const RunHistory& run : runs) {
        const std::vector<LostSpan> spans = lost_spans(run);
        if (spans.empty()) {
            continue;
        }
        const LostSpan& first = spans.front();
        text += fmt::format("; {}worker {} was lost at {}",
                            runs.size() > 1 ? fmt::format("in {} ", run.label) : "", first.worker,
                            moment_text(first.begin_s));
        text += first.joined ? " and joined again at " + moment_text(first.end_s) : "";
        text +=
            spans.size() > 1 ? fmt::format(" and {}", counted(spans.size() - 1, "more loss")) : "";
    }
    return text;
}

std::string failures(const std::vector<RunHistory>& runs) {
    std::string text;
    for (const RunHistory& run : runs) {
        if (run.failure) {
            text += fmt::format("; {} failed: {}", runs.size() > 1 ? run.label : "it",
                                run.failure->message);
        }
    }
    return text;
}

}  // namespace

std::string moment_text(double seconds) {
    if (seconds < kFewSeconds) {
        return fmt::format("{:.1f} s", seconds);
    }
    const auto whole = std::lround(seconds);
    return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                        : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string quality_text(const RunHistory& run, double quality) {
    return run.regression() ? fmt::format("R2 {:.4g}", quality) : percent(quality) + " accuracy";
}

double cost_s(const StragglerEpisode& slow) {
    return slow.duration_s() * (1 - 1 / std::max(1.0, slow.slowdown));
}

std::optional<PageLevel> page_level(const std::vector<RunHistory>& runs) {
    const std::optional<RunLevel> target = own_target(runs.front());
    const bool shared =
        target && std::ranges::all_of(runs, [&](const RunHistory& run) {
            const auto other = own_target(run);
            return other && other->value == target->value && other->loss == target->loss;
        });
    if (shared) {
        return PageLevel{.level = *target, .text = level_text(runs.front(), *target)};
    }
    double least = HUGE_VAL;
    for (const RunHistory& run : runs) {
        if (run.evaluations.size() < 2 || run.regression() != runs.front().regression()) {
            return std::nullopt;
        }
        least = std::min(least, best_quality(run));
    }
    if (runs.size() < 2 || !std::isfinite(least)) {
        return std::nullopt;
    }
    const RunLevel level{.value = least};
    return PageLevel{.level = level, .own = false, .text = level_text(runs.front(), level)};
}

std::string run_verdict(const std::vector<RunHistory>& runs) {
    const std::optional<PageLevel> level = page_level(runs);
    const std::string first = runs.size() == 1 ? alone(runs.front(), level) : compared(runs, level);
    return first + slowness(runs) + losses(runs) + takeovers(runs) + failures(runs) + ".";
}

}  // namespace cohort
