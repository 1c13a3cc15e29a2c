#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// How a chooser forms its opinion.
struct ChooserOptions {
    std::string predictor = "auto";  ///< as make_predictor; simulations also: oracle
    std::string predictor_file;      ///< of `cohort predictor train`; empty: the shipped one
    std::string chooser_file;   ///< of `cohort chooser train`; empty: the shipped one; "none": none
    bool record_rates = false;  ///< RateWindows are measured in every mode
    /// Initial weights of a RateRegressor, from chooser_file; null: RateRegressor::start_weights().
    std::shared_ptr<const NamedWeights> rate_weights = {};
};

/// Whether the predictor of this name uses an LSTM model, see make_predictor.
[[nodiscard]] bool uses_model(std::string_view predictor) noexcept;

/// Errors: UsageError naming a file that would not be read.
void check_chooser_options(const ChooserOptions& options);

/// Facts of a job that do not depend on its cluster's load.
struct JobFacts {
    double parameters = 0;
    double parameter_bytes = 0;   ///< of a push
    double flops_per_sample = 0;  ///< forward and backward; 0: not known, or nothing is learned
    double learning_rate = 0;     ///< at the start
    double momentum = 0;          ///< of the optimizer: momentum_of()
    bool local_steps = false;     ///< their cost is known: a network learns with sgd
};

}  // namespace cohort
