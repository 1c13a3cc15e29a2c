// Weights of star-ml's regressor, fitted to the rates that plans achieved: from results of virtual
// runs and metrics of real runs.
#include "report/fit/chooser_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "cohort/core/error.hpp"
#include "cohort/core/limits.hpp"
#include "cohort/report/sweep_results.hpp"
#include "records/run/run_log.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Far beyond any logarithm of a rate and any share, and small enough that errors of predictions
/// and their squares are finite.
constexpr Limits<double> kWindowLimits{.least = -1e6, .most = 1e6};

/// @param where  of the window, for messages
void check_window(const RateWindow& window, const std::string& where) {
    const auto check = [&where](double value, std::string_view name) {
        if (!kWindowLimits.contain(value)) {
            fail<FileError>({.where = where,
                             .what = fmt::format("{} is out of range", name),
                             .expected = kWindowLimits.text(),
                             .got = fmt::format("{}", value)});
        }
    };
    check(window.log_rate, "log_rate");
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        check(window.features.values[term], RateFeatures::kNames[term]);
    }
}

RateRun run_of_result(const std::string& file) {
    SimulationResult result = read_result(file);
    for (std::size_t row = 0; row < result.windows.size(); ++row) {
        check_window(result.windows[row], fmt::format("{}:/windows, row {}", file, row));
    }
    const std::string trace = option_of(result.options, "trace");
    const std::string pattern = option_of(result.options, "pattern");
    return {.file = file,
            .pattern = trace.empty() ? pattern.substr(0, pattern.find(':')) : trace,
            .windows = std::move(result.windows)};
}

/// The measured rates of a real run.
class RateReader final : public RunLogVisitor {
public:
    explicit RateReader(const std::string& file) : log_(file) {}

    [[nodiscard]] std::vector<RateWindow> read() {
        log_.read_file(*this);
        return std::move(windows_);
    }
    void on_rate(const RateWindow& window) override {
        check_window(window, log_.where());
        windows_.push_back(window);
    }

private:
    RunLogReader log_;
    std::vector<RateWindow> windows_;
};

RateRun run_of_metrics(const std::string& file) {
    return {.file = file,
            .pattern = fs::path(file).parent_path().string(),
            .windows = RateReader(file).read()};
}

std::vector<RateRun> runs_of(const std::string& folder) {
    const auto file = [&](const char* name) { return (fs::path(folder) / name).string(); };
    std::error_code ignored;
    if (fs::exists(file(kSweepFile), ignored)) {
        std::vector<RateRun> runs;
        for (const RunRow& row : read_sweep_results(folder).rows) {
            runs.push_back(run_of_result(row.file));
        }
        return runs;
    }
    if (fs::exists(file(kResultFile), ignored)) {
        return {run_of_result(file(kResultFile))};
    }
    if (fs::exists(file(kMetricsFile), ignored)) {
        return {run_of_metrics(file(kMetricsFile))};
    }
    fail<FileError>(
        {.where = folder,
         .what = "holds no run",
         .expected = fmt::format("{}, {} or {}", kSweepFile, kResultFile, kMetricsFile)});
}

// The fit.

constexpr std::size_t kTerms = RateFeatures::kTerms;
constexpr double kMostWindows = 40;  ///< limit of windows that a run counts for
constexpr double kOutlier = 0.02;    ///< of log rates
constexpr int kRounds = 15;          ///< of reweighting outliers

using Matrix = std::vector<std::vector<double>>;  ///< [rows][columns]

/// x of a x = b, by Cholesky's decomposition. @param a  symmetric, positive definite
std::vector<double> solve(Matrix a, std::vector<double> b) {
    const std::size_t n = b.size();
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
            double sum = a[i][j];
            for (std::size_t k = 0; k < j; ++k) {
                sum -= a[i][k] * a[j][k];
            }
            a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < i; ++k) {
            b[i] -= a[i][k] * b[k];
        }
        b[i] /= a[i][i];
    }
    for (std::size_t i = n; i-- > 0;) {
        for (std::size_t k = i + 1; k < n; ++k) {
            b[i] -= a[k][i] * b[k];
        }
        b[i] /= a[i][i];
    }
    return b;
}

double weight_of(const RateRun& run, double left) {
    const double share = std::min(1.0, kMostWindows / static_cast<double>(run.windows.size()));
    const double beyond = std::max(1.0, std::abs(left) / kOutlier);
    return share / (beyond * beyond);
}

/// Fits corrections of the start weights by ridge regression. @param weights  weights by which
/// outliers are found
RateRegressor::Weights refit(const std::vector<const RateRun*>& runs,
                             const RateRegressor::Weights& weights) {
    const RateRegressor start;
    const RateRegressor known(weights);
    Matrix squares(kTerms, std::vector<double>(kTerms, 0.0));
    std::vector<double> products(kTerms, 0.0);
    for (std::size_t i = 0; i < kTerms; ++i) {
        squares[i][i] = 1 / RateRegressor::kDoubt;
    }
    for (const RateRun* run : runs) {
        for (const RateWindow& window : run->windows) {
            const auto& x = window.features.values;
            const double left = window.log_rate - start.predict(window.features);
            const double counts = weight_of(*run, window.log_rate - known.predict(window.features));
            for (std::size_t i = 0; i < kTerms; ++i) {
                products[i] += counts * x[i] * left;
                for (std::size_t j = 0; j < kTerms; ++j) {
                    squares[i][j] += counts * x[i] * x[j];
                }
            }
        }
    }
    RateRegressor::Weights found = RateRegressor::start_weights();
    const std::vector<double> corrections = solve(std::move(squares), std::move(products));
    for (std::size_t i = 0; i < kTerms; ++i) {
        found[i] += corrections[i];
    }
    return found;
}

RateRegressor::Weights fit(const std::vector<const RateRun*>& runs) {
    RateRegressor::Weights weights = RateRegressor::start_weights();
    for (int round = 0; round < kRounds; ++round) {
        weights = refit(runs, weights);
    }
    return weights;
}

std::vector<const RateRun*> all_but(const std::vector<RateRun>& runs, const std::string& pattern) {
    std::vector<const RateRun*> others;
    for (const RateRun& run : runs) {
        if (run.pattern != pattern) {
            others.push_back(&run);
        }
    }
    return others;
}

}  // namespace

std::vector<RateRun> rate_runs(const std::vector<std::string>& folders) {
    std::vector<RateRun> all;
    for (const std::string& folder : folders) {
        for (RateRun& run : runs_of(folder)) {
            if (!run.windows.empty()) {
                all.push_back(std::move(run));
            }
        }
    }
    if (all.empty()) {
        fail<UsageError>({.where = "runs",
                          .what = "no run has recorded the rates of its plans",
                          .expected = "runs of star-ml, or of any mode with --record-rates"});
    }
    return all;
}

NamedWeights fit_rates(const std::vector<RateRun>& runs) {
    std::vector<const RateRun*> all;
    std::set<std::string> patterns;
    std::size_t windows = 0;
    for (const RateRun& run : runs) {
        all.push_back(&run);
        patterns.insert(run.pattern);
        windows += run.windows.size();
    }
    const RateRegressor::Weights weights = fit(all);
    return {.trained_on = fmt::format("{} windows of {} runs, {} patterns", windows, runs.size(),
                                      patterns.size()),
            .terms = {RateFeatures::kNames.begin(), RateFeatures::kNames.end()},
            .weights = {weights.begin(), weights.end()}};
}

void RateScore::merge(const RateScore& other) {
    runs += other.runs;
    const double share = static_cast<double>(other.runs) / static_cast<double>(runs);
    for (double RateScore::*error :
         {&RateScore::timing_model, &RateScore::fixed, &RateScore::anew, &RateScore::continued,
          &RateScore::anew_first, &RateScore::continued_first}) {
        this->*error += share * (other.*error - this->*error);
    }
}

RateScore score_rates(const RateRun& run, const RateRegressor::Weights& weights) {
    RateRegressor anew;
    RateRegressor continued(weights);
    const RateRegressor start;
    const RateRegressor fixed(weights);
    RateScore score{.runs = 1};
    for (std::size_t i = 0; i < run.windows.size(); ++i) {
        const RateWindow& window = run.windows[i];
        const auto add = [&](double& mean, const RateRegressor& regressor) {
            const double error = std::abs(regressor.predict(window.features) - window.log_rate);
            mean += (error - mean) / static_cast<double>(i + 1);
        };
        add(score.timing_model, start);
        add(score.fixed, fixed);
        add(score.anew, anew);
        add(score.continued, continued);
        if (i < RateScore::kFirst) {
            score.anew_first = score.anew;
            score.continued_first = score.continued;
        }
        anew.learn(window.features, window.log_rate);
        continued.learn(window.features, window.log_rate);
    }
    return score;
}

std::map<std::string, RateScore> score_held_out(const std::vector<RateRun>& runs) {
    std::map<std::string, RateRegressor::Weights> without;
    std::map<std::string, RateScore> scores;
    for (const RateRun& run : runs) {
        if (!without.contains(run.pattern)) {
            without[run.pattern] = fit(all_but(runs, run.pattern));
        }
        scores[run.pattern].merge(score_rates(run, without.at(run.pattern)));
    }
    return scores;
}

}  // namespace cohort
