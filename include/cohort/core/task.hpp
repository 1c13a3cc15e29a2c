#pragma once

namespace cohort {

/// What a network learns; it decides what a loss is and what is told beside it.
enum class Task {
    kClassification,  ///< a class per sample: cross entropy, nats; accuracy
    kLanguage,        ///< the next token: cross entropy per token, nats; accuracy and perplexity
    kRegression       ///< numbers: mean squared error of standardised targets; R2
};

}  // namespace cohort
