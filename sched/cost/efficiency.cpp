#include "cohort/sched/efficiency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr double kMostNoise = 100;  ///< limit of phi / B: larger values mean the same

struct Term {
    const char* name;
    double (*value)(const StalenessFeatures& f);
};

/// Movement of the parameters during the lag, in reference batches at --lr.
double lag(const StalenessFeatures& f) {
    return f.mean_lag * f.lr_scale;
}

/// Amplification of a step by momentum, as a logarithm.
double inertia(const StalenessFeatures& f) {
    return -std::log1p(-f.momentum);
}

/// Inertia where no look-ahead compensates for it: momentum continues the step of a stale gradient.
double memory(const StalenessFeatures& f) {
    return f.look_ahead ? 0 : inertia(f);
}

double noise(const StalenessFeatures& f) {
    return std::log1p(std::min(f.noise_ratio, kMostNoise));
}

/// Curvature relative to noise: large where gradients mostly show the bouncing of the parameters.
double bounce(const StalenessFeatures& f) {
    constexpr double kLeastNoise = 0.1;
    return f.step_curvature / (f.noise_ratio + kLeastNoise);
}

using F = const StalenessFeatures&;
constexpr auto kCostTerms = std::to_array<Term>({
    {"rate*noise", [](F f) { return -std::log2(f.lr_scale) * noise(f); }},
    {"lag*bounce", [](F f) { return lag(f) * bounce(f); }},
    {"lag^2*inertia*bounce", [](F f) { return lag(f) * lag(f) * inertia(f) * bounce(f); }},
    {"lag*memory*bounce", [](F f) { return lag(f) * memory(f) * bounce(f); }},
    {"drift*inertia*bounce", [](F f) { return (f.local_steps - 1) * inertia(f) * bounce(f); }},
});

[[noreturn]] void fail_weights(std::string_view what, std::string_view expected,
                               const std::string& got) {
    fail<FileError>({.where = "efficiency model", .what = what, .expected = expected, .got = got});
}

}  // namespace

ScaledEfficiency EfficiencyModel::best_scale(StalenessFeatures features) const {
    if (features.mean_lag <= 0) {
        features.lr_scale = 1;
        return {.efficiency = efficiency(features)};
    }
    ScaledEfficiency best{.scale = 1, .efficiency = 0};
    const bool blind = features.learns && !features.measured();
    for (const double scale : kLrScales) {
        if (blind && features.mean_lag * scale > kBlindLag && scale > kLrScales.back()) {
            continue;
        }
        features.lr_scale = scale;
        const double reached = efficiency(features);
        if (reached >= best.efficiency) {
            best = {.scale = scale, .efficiency = reached};
        }
    }
    return best;
}

EfficiencyModel::EfficiencyModel(const EfficiencyCoefficients& coefficients)
    : weights_(kCostTerms.size(), 0.0) {
    const std::vector<std::string>& known = term_names();
    check_invariant(coefficients.terms.size() == coefficients.weights.size(),
                    "every term has a weight");
    for (std::size_t i = 0; i < coefficients.terms.size(); ++i) {
        const std::string& term = coefficients.terms[i];
        const auto found = std::ranges::find(known, term);
        if (found == known.end()) {
            fail_weights("a term that this program does not know",
                         "a file of this program's `cohort efficiency train`", term);
        }
        const double weight = coefficients.weights[i];
        if (!(weight >= 0)) {
            fail_weights(term, "a cost, at least 0", fmt::format("{}", weight));
        }
        weights_[static_cast<std::size_t>(found - known.begin())] = weight;
    }
}

double EfficiencyModel::efficiency(const StalenessFeatures& features) const {
    if (weights_.empty() || !features.measured()) {
        const double moved = lag(features);
        return std::pow(features.lr_scale, kRateCost) / (1 + kKappa * moved * moved) *
               std::exp(-kDriftCost * std::log2(features.local_steps) * inertia(features));
    }
    const std::vector<double> terms = terms_of(features);
    const double cost = std::inner_product(terms.begin(), terms.end(), weights_.begin(), 0.0);
    static_assert(kCostTerms.back().name == std::string_view("drift*inertia*bounce"));
    const double error = kDriftError * weights_.back() * terms.back();
    return std::max(std::exp(-cost - error * error / 2), kLeast);
}

const std::vector<std::string>& EfficiencyModel::term_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        std::ranges::transform(kCostTerms, std::back_inserter(all), &Term::name);
        return all;
    }();
    return names;
}

std::vector<double> EfficiencyModel::terms_of(const StalenessFeatures& features) {
    std::vector<double> values;
    for (const Term& term : kCostTerms) {
        values.push_back(term.value(features));
    }
    return values;
}

double batch_efficiency(double noise_scale, double reference_batch, double batch) {
    return (noise_scale + reference_batch) / (noise_scale + batch);
}

}  // namespace cohort
