// Weights of star-ml's regressor, fitted to measurements of runs.
#include "report/fit/chooser_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/fit/least_squares.hpp"

namespace cohort {
namespace {

constexpr std::size_t kTerms = RateFeatures::kTerms;
constexpr double kMostWindows = 40;  ///< limit of windows that a run counts for
constexpr double kOutlier = 0.02;    ///< of log rates
constexpr int kRounds = 15;          ///< of reweighting outliers

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

NamedWeights fit_rates(const std::vector<RateRun>& runs) {
    NamedWeights named;
    std::vector<const RateRun*> all;
    std::set<std::string> patterns;
    std::size_t windows = 0;
    for (const RateRun& run : runs) {
        all.push_back(&run);
        patterns.insert(run.pattern);
        windows += run.windows.size();
    }
    const RateRegressor::Weights weights = fit(all);
    named.trained_on =
        fmt::format("{} windows of {} runs, {} patterns", windows, runs.size(), patterns.size());
    named.terms.assign(RateFeatures::names().begin(), RateFeatures::names().end());
    named.weights.assign(weights.begin(), weights.end());
    return named;
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
