#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/named_weights.hpp"
#include "cohort/sched/timing.hpp"

namespace cohort {

/// Predictor, efficiency model and weights of a chooser.
struct ChooserOptions {
    std::string predictor = "auto";    ///< as make_predictor; simulations also: oracle
    std::string efficiency = "model";  ///< model, prior
    std::string predictor_file;        ///< of `cohort predictor train`; empty: the shipped one
    std::string efficiency_file;       ///< of `cohort efficiency train`; empty: the shipped one
    std::string chooser_file;   ///< of `cohort chooser train`; empty: the shipped one; "none": none
    bool record_rates = false;  ///< RateWindows are measured in every mode
    /// Coefficients from efficiency_file, or the shipped ones; null: no model, the prior is used.
    std::shared_ptr<const NamedWeights> coefficients = {};
    /// Initial weights of a RateRegressor, from chooser_file; null: RateRegressor::start_weights().
    std::shared_ptr<const NamedWeights> rate_weights = {};
};

/// Whether the predictor of this name uses an LSTM model, see make_predictor.
[[nodiscard]] bool uses_model(std::string_view predictor) noexcept;

/// Checks the names, not the files. @param more_predictors  names allowed besides those of
/// make_predictor Errors: UsageError naming the option.
void check_chooser_options(const ChooserOptions& options,
                           const std::vector<std::string>& more_predictors);

/// The chooser's options out of the options of a job, checked. Errors: UsageError, as above.
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

/// Facts of a job that do not depend on its cluster's load.
struct JobFacts {
    double parameters = 0;
    double parameter_bytes = 0;   ///< of a push
    double flops_per_sample = 0;  ///< forward and backward; 0: nothing is learned
    double learning_rate = 0;     ///< at the start
    double momentum = 0;
};

}  // namespace cohort
