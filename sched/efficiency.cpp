#include "cohort/sched/efficiency.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr double kMostNoise = 100;  ///< of phi / B: beyond, it says the same

struct Term {
    const char* name;
    bool measured;
    double (*value)(const StalenessFeatures& f);
};

/// Share of the stability limit that the run uses up.
double use(const StalenessFeatures& f) {
    return f.mean_lag > 0 ? f.step_curvature / stability_limit(f.mean_lag, f.momentum, f.look_ahead)
                          : 0;
}

/// What momentum that nobody makes up for adds: it acts on after the gradient has been taken back.
double memory(const StalenessFeatures& f) {
    return f.look_ahead ? 0 : -std::log1p(-f.momentum);
}

/// The same whatever workers compute on.
double inertia(const StalenessFeatures& f) {
    return -std::log1p(-f.momentum);
}

double noise(const StalenessFeatures& f) {
    return std::log1p(std::min(f.noise_ratio, kMostNoise));
}

/// Curvature against noise: large where the signal's own bounces are what gradients hold.
double bounce(const StalenessFeatures& f) {
    constexpr double kLeastNoise = 0.1;
    return f.step_curvature / (f.noise_ratio + kLeastNoise);
}

const std::vector<Term>& all_terms() {
    using F = const StalenessFeatures&;
    static const std::vector<Term> terms{
        {"lag", false, [](F f) { return f.mean_lag; }},
        {"lag^2", false, [](F f) { return f.mean_lag * f.mean_lag; }},
        {"max_lag", false, [](F f) { return f.max_lag; }},
        {"lag*curvature", true, [](F f) { return f.mean_lag * f.step_curvature; }},
        {"use", true, [](F f) { return use(f); }},
        {"use^2", true, [](F f) { return use(f) * use(f); }},
        {"lag*noise", true, [](F f) { return f.mean_lag * noise(f); }},
        {"lag*bounce", true, [](F f) { return f.mean_lag * bounce(f); }},
        {"lag*memory", false, [](F f) { return f.mean_lag * memory(f); }},
        {"lag^2*memory", false, [](F f) { return f.mean_lag * f.mean_lag * memory(f); }},
        {"lag*memory*curvature", true,
         [](F f) { return f.mean_lag * memory(f) * f.step_curvature; }},
        {"lag*memory*noise", true, [](F f) { return f.mean_lag * memory(f) * noise(f); }},
        {"lag*memory*bounce", true, [](F f) { return f.mean_lag * memory(f) * bounce(f); }},
        {"lag*inertia*curvature", true,
         [](F f) { return f.mean_lag * inertia(f) * f.step_curvature; }},
        {"lag*inertia*bounce", true, [](F f) { return f.mean_lag * inertia(f) * bounce(f); }},
        {"lag^2*inertia*bounce", true,
         [](F f) { return f.mean_lag * f.mean_lag * inertia(f) * bounce(f); }},
    };
    return terms;
}

}  // namespace

double stability_limit(double lag, double momentum, bool look_ahead) {
    if (lag <= 0) {
        return std::numeric_limits<double>::infinity();
    }
    if (look_ahead || momentum <= 0) {
        return std::numbers::pi / (2 * lag);
    }
    const double wanted = -std::log(momentum) * lag;
    double low = 0;
    double high = std::numbers::pi / 2;
    constexpr int kHalvings = 60;
    for (int i = 0; i < kHalvings; ++i) {
        const double y = (low + high) / 2;
        (y * std::tan(y) < wanted ? low : high) = y;
    }
    return high / (lag * std::sin(high));
}

double StalenessPrior::efficiency(const StalenessFeatures& features) const {
    return 1 / (1 + kKappa * features.mean_lag);
}

EfficiencyModel::EfficiencyModel(EfficiencyCoefficients coefficients)
    : coefficients_(std::move(coefficients)), weights_(all_terms().size(), 0.0) {
    const std::vector<std::string>& known = term_names();
    check_invariant(coefficients_.terms.size() == coefficients_.weights.size(),
                    "every term has a weight");
    for (std::size_t i = 0; i < coefficients_.terms.size(); ++i) {
        const std::string& term = coefficients_.terms[i];
        const auto found = std::find(known.begin(), known.end(), term);
        if (found == known.end()) {
            fail<FileError>({.where = "efficiency model",
                             .what = "a term that this program does not know",
                             .expected = "a file of this program's `cohort efficiency train`",
                             .got = term});
        }
        weights_[static_cast<std::size_t>(found - known.begin())] = coefficients_.weights[i];
        needs_measured_ = needs_measured_ || is_measured(term);
    }
}

double EfficiencyModel::efficiency(const StalenessFeatures& features) const {
    if (needs_measured_ && (features.step_curvature <= 0 || features.noise_ratio <= 0)) {
        return StalenessPrior().efficiency(features);
    }
    const std::vector<double> terms = terms_of(features);
    double sum = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
        sum += weights_[i] * terms[i];
    }
    return std::clamp(std::exp(sum), kLeast, 1.0);
}

const std::vector<std::string>& EfficiencyModel::term_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const Term& term : all_terms()) {
            all.emplace_back(term.name);
        }
        return all;
    }();
    return names;
}

std::vector<double> EfficiencyModel::terms_of(const StalenessFeatures& features) {
    std::vector<double> values;
    for (const Term& term : all_terms()) {
        values.push_back(term.value(features));
    }
    return values;
}

bool EfficiencyModel::is_measured(std::string_view term) {
    return std::any_of(all_terms().begin(), all_terms().end(),
                       [term](const Term& one) { return one.name == term && one.measured; });
}

double batch_efficiency(double noise_scale, double reference_batch, double batch) {
    return (noise_scale + reference_batch) / (noise_scale + batch);
}

}  // namespace cohort
