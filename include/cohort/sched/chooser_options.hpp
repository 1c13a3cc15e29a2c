#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/named_weights.hpp"
#include "cohort/sched/timing.hpp"

namespace cohort {

/// How a chooser forms its opinion.
struct ChooserOptions {
    std::string predictor = "auto";    ///< as make_predictor; simulations also: oracle
    std::string efficiency = "model";  ///< model, prior
    std::string predictor_file;        ///< of `cohort predictor train`; empty: the shipped one
    std::string efficiency_file;       ///< of `cohort efficiency train`; empty: the shipped one
    std::string chooser_file;   ///< of `cohort chooser train`; empty: the shipped one; "none": none
    bool record_rates = false;  ///< RateWindows are measured whatever the mode
    /// What efficiency_file holds, or the shipped ones; null: there is no model, the prior counts.
    std::shared_ptr<const NamedWeights> coefficients = {};
    /// What a RateRegressor begins with, from chooser_file; null: RateRegressor::start_weights().
    std::shared_ptr<const NamedWeights> rate_weights = {};
};

/// Whether the predictor of this name looks at a model, see make_predictor.
[[nodiscard]] bool uses_model(std::string_view predictor) noexcept;

/// Checks the words, not the files. @param more_predictors  besides those of make_predictor
/// Errors: UsageError naming the option.
void check_chooser_options(const ChooserOptions& options,
                           const std::vector<std::string>& more_predictors);

/// Those among the options of a job, checked. Errors: UsageError, as above.
template <class Options>
[[nodiscard]] ChooserOptions chooser_options(const Options& job,
                                             const std::vector<std::string>& more_predictors = {}) {
    ChooserOptions options{.predictor = job.predictor,
                           .efficiency = job.efficiency,
                           .predictor_file = job.predictor_file,
                           .efficiency_file = job.efficiency_file,
                           .chooser_file = job.chooser_file,
                           .record_rates = job.record_rates};
    check_chooser_options(options, more_predictors);
    return options;
}

/// What a job is, apart from its cluster's load.
struct JobFacts {
    double parameters = 0;
    double parameter_bytes = 0;   ///< of a push
    double flops_per_sample = 0;  ///< forward and backward; 0: nothing is learned
    double learning_rate = 0;     ///< at the start
    double momentum = 0;
};

}  // namespace cohort
