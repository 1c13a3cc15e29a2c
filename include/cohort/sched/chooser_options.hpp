#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/core/words.hpp"
#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// Where choosers take the cost of staleness from.
enum class EfficiencySource : std::uint8_t { kModel, kPrior };
template <>
inline constexpr auto kWords<EfficiencySource> = std::to_array<std::string_view>({"model",
                                                                                  "prior"});

/// How a chooser forms its opinion.
struct ChooserOptions {
    std::string predictor = "auto";  ///< as make_predictor; simulations also: oracle
    EfficiencySource efficiency = EfficiencySource::kModel;
    std::string predictor_file;   ///< of `cohort predictor train`; empty: the shipped one
    std::string efficiency_file;  ///< of `cohort efficiency train`; empty: the shipped one
    std::string chooser_file;   ///< of `cohort chooser train`; empty: the shipped one; "none": none
    bool record_rates = false;  ///< RateWindows are measured in every mode
    /// Coefficients from efficiency_file, or the shipped ones; null: no model, the prior is used.
    std::shared_ptr<const NamedWeights> coefficients = {};
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
    double flops_per_sample = 0;  ///< forward and backward; 0: nothing is learned
    double learning_rate = 0;     ///< at the start
    double momentum = 0;
};

}  // namespace cohort
