// Rows for the efficiency model from runs of sweeps: loss curves, and curvature and noise of ssgd.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "cohort/core/error.hpp"
#include "cohort/report/sweep_results.hpp"
#include "report/fit/efficiency_training.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

constexpr double kWorstLoss = 20;    ///< nats: a loss that is not finite, or a run that diverged
constexpr std::size_t kSkipped = 2;  ///< points at the beginning that are left out
constexpr int kLevels = 8;           ///< losses at which curves are compared
constexpr double kBeyond = 0.1;      ///< of the loss
constexpr double kDepth = 0.6;       ///< share of the fall, from the end, that the levels cover
constexpr double kSlow = 0.25;       ///< of ssgd's best rate
constexpr double kSame = 1e-9;       ///< of a rate: so much rounding
constexpr std::string_view kSsgd = "ssgd";

using Options = std::map<std::string, std::string>;

/// Runs that differ in their seed only.
struct Runs {
    std::string file;  ///< of the last one
    std::vector<SimulationResult> results;
    Options options;
};

const std::string& text(const Runs& runs, const std::string& name) {
    const auto found = runs.options.find(name);
    if (found == runs.options.end()) {
        fail<FileError>({.where = runs.file,
                         .what = fmt::format("the run's --{} is not recorded", name),
                         .hint = "the sweep anew, with this version"});
    }
    return found->second;
}

double number_in(const Runs& runs, const std::string& name, const std::string& said) {
    double value = 0;
    const char* last = said.data() + said.size();
    const auto [end, error] = std::from_chars(said.data(), last, value);
    if (error != std::errc() || end != last || !std::isfinite(value)) {
        fail<FileError>({.where = runs.file,
                         .what = fmt::format("the run's --{} is not a number", name),
                         .got = said});
    }
    return value;
}

double number(const Runs& runs, const std::string& name) {
    return number_in(runs, name, text(runs, name));
}

/// All options but `without`, one line.
std::string key_of(const Options& options, const std::set<std::string>& without) {
    std::string key;
    for (const auto& [name, value] : options) {
        key += without.contains(name) ? "" : fmt::format("{}={} ", name, value);
    }
    return key;
}

/// Log loss of the first test samples at every evaluation, the mean over runs, smoothed and made to
/// fall.
std::vector<double> curve_of(const Runs& runs) {
    std::vector<double> mean;
    std::size_t points = 0;
    std::vector<std::vector<double>> curves;
    for (const SimulationResult& run : runs.results) {
        const auto fewest =
            std::ranges::min_element(run.evaluations, {}, &EvaluationPoint::test_samples);
        std::vector<double>& curve = curves.emplace_back();
        for (const EvaluationPoint& point : run.evaluations) {
            if (point.test_samples == fewest->test_samples) {
                const bool good = std::isfinite(point.loss) && point.loss < kWorstLoss;
                curve.push_back(std::log(good ? std::max(point.loss, 1e-6) : kWorstLoss));
            }
        }
        points = std::max(points, curve.size());
    }
    for (std::size_t i = 0; i < points; ++i) {
        double sum = 0;
        for (const std::vector<double>& curve : curves) {
            sum +=
                i < curve.size() ? curve[i] : std::log(kWorstLoss);  // the run had diverged before
        }
        mean.push_back(sum / static_cast<double>(curves.size()));
    }
    std::vector<double> smooth = mean;
    for (std::size_t i = 1; i + 1 < mean.size(); ++i) {
        smooth[i] = (mean[i - 1] + mean[i] + mean[i + 1]) / 3;
    }
    for (std::size_t i = 1; i < smooth.size(); ++i) {
        smooth[i] = std::min(smooth[i], smooth[i - 1]);
    }
    return smooth;
}

/// Number of points, with fractions, until a falling curve reaches a level.
double reached(const std::vector<double>& curve, double level) {
    const auto at = std::ranges::find_if(curve, [level](double loss) { return loss <= level; });
    const auto index = static_cast<double>(at - curve.begin());
    if (at == curve.begin()) {
        return index + 1;
    }
    const double fall = *(at - 1) - *at;
    return index + (fall > 0 ? (*(at - 1) - level) / fall : 0);
}

double mean_of(const Runs& runs, std::optional<double> SimulationResult::*field) {
    double sum = 0;
    for (const SimulationResult& run : runs.results) {
        sum += (run.*field).value_or(0);
    }
    return sum / static_cast<double>(runs.results.size());
}

/// The mode without its scale.
std::string plan_of(const Runs& runs) {
    const std::string mode = text(runs, "mode");
    return mode.substr(0, mode.find('@'));
}

/// Learning rate of the runs' updates.
double rate_of(const Runs& runs) {
    const std::string mode = text(runs, "mode");
    const std::size_t at = mode.find('@');
    const double scale = at == std::string::npos ? 1 : number_in(runs, "mode", mode.substr(at + 1));
    return scale * number(runs, "lr");
}

double samples_s(const Runs& runs) {
    double samples = 0;
    double seconds = 0;
    for (const SimulationResult& run : runs.results) {
        samples += static_cast<double>(run.samples_applied);
        seconds += run.virtual_s;
    }
    return samples / seconds;
}

/// Between two pushes of the runs' mode.
double local_steps_of(const Runs& runs) {
    ModeSetting setting;
    setting.live.assign(static_cast<std::size_t>(number(runs, "workers")), true);
    return steps_per_push(make_plan(plan_of(runs), setting));
}

EfficiencyRow row_of(const Runs& plan, const Runs& ssgd, double scale) {
    const double batch = number(plan, "batch") * number(plan, "workers");
    EfficiencyRow row{
        .model = text(plan, "model"),
        .lr = rate_of(ssgd),
        .plan = plan_of(plan),
        .pattern = text(plan, "pattern"),
        .features = {.lr_scale = scale,
                     .momentum = number(plan, "momentum"),
                     .look_ahead = text(plan, "stale-momentum") == "look-ahead",
                     .step_curvature = mean_of(ssgd, &SimulationResult::step_curvature),
                     .noise_ratio = mean_of(ssgd, &SimulationResult::noise_scale) / batch,
                     .local_steps = local_steps_of(plan)},
        .efficiency = curve_ratio(curve_of(ssgd), curve_of(plan)),
        .pace = samples_s(plan) / samples_s(ssgd)};
    double pushes = 0;
    double lags = 0;
    for (const SimulationResult& run : plan.results) {
        for (const WorkerReport& worker : run.workers) {
            pushes += static_cast<double>(worker.pushes);
            lags += worker.lag_sum;
            row.features.max_lag = std::max(row.features.max_lag, worker.lag_max);
        }
    }
    row.features.mean_lag = pushes > 0 ? lags / pushes : 0;
    return row;
}

std::map<std::string, Runs> runs_of(const std::vector<std::string>& sweeps) {
    std::map<std::string, Runs> all;
    std::set<std::string> seen;
    for (const std::string& sweep : sweeps) {
        for (const RunRow& row : read_sweep_results(sweep).rows) {
            SimulationResult result = read_result(row.file);
            if (result.evaluations.empty()) {
                continue;  // no training in this run
            }
            const Options options(result.options.begin(), result.options.end());
            if (!seen.insert(key_of(options, {"out", "overwrite", "threads"})).second) {
                continue;
            }
            Runs& runs =
                all[key_of(options, {"seed", "pattern-seed", "out", "overwrite", "threads"})];
            runs.file = row.file;
            runs.options = options;
            runs.results.push_back(std::move(result));
        }
    }
    return all;
}

/// Options in which a plan may differ from the ssgd that it is compared with, the rate included.
const std::set<std::string>& staleness_options() {
    static const std::set<std::string> names{
        "mode", "stale-momentum", "lr", "seed", "pattern-seed", "out", "overwrite", "threads"};
    return names;
}

/// Runs of ssgd by their options. Rates without practical use are left out: those above ssgd's best
/// rate at which ssgd ends worse by more than kBeyond (there any plan with less noise does better),
/// and those below kSlow of the best rate.
std::multimap<std::string, const Runs*> references_of(const std::map<std::string, Runs>& all) {
    struct Best {
        double end = 0;
        double rate = 0;
    };
    std::map<std::string, Best> best;
    std::multimap<std::string, const Runs*> references;
    for (const auto& [key, runs] : all) {
        if (plan_of(runs) == kSsgd) {
            const std::string setting = key_of(runs.options, staleness_options());
            references.emplace(setting, &runs);
            const Best one{.end = curve_of(runs).back(), .rate = rate_of(runs)};
            const auto [at, first] = best.try_emplace(setting, one);
            at->second = first || one.end < at->second.end ? one : at->second;
        }
    }
    std::erase_if(references, [&](const auto& reference) {
        const auto& [setting, runs] = reference;
        const Best& found = best.at(setting);
        const double rate = rate_of(*runs);
        return rate < kSlow * found.rate ||
               (rate > found.rate && curve_of(*runs).back() > found.end + std::log1p(kBeyond));
    });
    return references;
}

/// The scale of kLrScales that is the ratio of two rates; none: another ratio.
std::optional<double> scale_of(double rate, double of) {
    const auto found = std::ranges::find_if(
        kLrScales, [&](double scale) { return std::abs(rate - scale * of) <= kSame * rate; });
    return found == kLrScales.end() ? std::nullopt : std::optional<double>(*found);
}

}  // namespace

double curve_ratio(const std::vector<double>& first, const std::vector<double>& second) {
    const double low = std::max(first.back(), second.back());
    const std::size_t early = std::min({kSkipped, first.size(), second.size()}) - 1;
    const double high = std::max(first.at(early), second.at(early));
    double sum = 0;
    int levels = 0;
    for (int i = 0; i < kLevels; ++i) {
        const double level = low + (high - low) * kDepth * i / (kLevels - 1);
        const double a = reached(first, level);
        const double b = reached(second, level);
        if (std::max(a, b) > static_cast<double>(early)) {
            sum += std::log(a / b);
            ++levels;
        }
    }
    if (levels == 0) {  // one curve never falls below the begin of the other
        const double length = static_cast<double>(std::max(first.size(), second.size()));
        return first.back() < second.back()   ? 1 / length
               : first.back() > second.back() ? length
                                              : 1;
    }
    return std::exp(sum / levels);
}

std::vector<EfficiencyRow> efficiency_rows(const std::vector<std::string>& sweeps) {
    const std::map<std::string, Runs> all = runs_of(sweeps);
    const std::multimap<std::string, const Runs*> references = references_of(all);
    std::vector<EfficiencyRow> rows;
    for (const auto& [key, runs] : all) {
        const auto [begin, end] = references.equal_range(key_of(runs.options, staleness_options()));
        for (auto reference = begin; reference != end; ++reference) {
            const std::optional<double> scale =
                scale_of(rate_of(runs), rate_of(*reference->second));
            if (scale && (plan_of(runs) != kSsgd || *scale < 1)) {
                rows.push_back(row_of(runs, *reference->second, *scale));
            }
        }
    }
    if (rows.empty()) {
        fail<UsageError>({.where = "sweeps",
                          .what = "no plan can be compared with ssgd",
                          .expected = "finished runs with --measure-gradients and an ssgd among "
                                      "them, see experiments/efficiency.toml"});
    }
    return rows;
}

}  // namespace cohort
