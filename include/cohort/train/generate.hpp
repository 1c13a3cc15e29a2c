#pragma once

#include <cstdint>
#include <string>

#include "cohort/tensor/precision.hpp"

namespace cohort {

struct GenerateOptions {
    std::string model_file;  ///< model.h5 of a run on text
    std::string prompt;      ///< UTF-8; empty: the beginning of a line
    std::int64_t tokens = 100;
    /// Of the softmax: below 1 likely tokens become likelier; 0: always the likeliest one.
    double temperature = 1;
    std::int64_t top_k = 0;  ///< only so many of the likeliest tokens are drawn from; 0: all
    std::uint64_t seed = 1;
    std::string device = "auto";
    int threads = 1;  ///< of the device
    PrecisionChoice precision = PrecisionChoice::kAuto;
    std::string tuning_file;  ///< as TrainEnvironment has it
};

struct GeneratedText {
    std::string text;     ///< the prompt and what follows it
    std::string unknown;  ///< parts of the prompt that are not in the vocabulary, comma separated
};

/// Lets a text model go on from a prompt, token by token: each is drawn from what the model
/// predicts after the last T tokens, T being the length of the windows that it was trained with.
/// <unk> is never drawn. The same options give the same text on the same machine.
/// Errors: FileError when the file is no model of text, has no vocabulary or a wrong one, and for a
/// prompt that is not UTF-8; UsageError for options out of range; NumericalError when the
/// model's outputs are not finite.
[[nodiscard]] GeneratedText generate_text(const GenerateOptions& options);

}  // namespace cohort
