#pragma once

#include <string>
#include <vector>

namespace cohort {

/// Weights of a linear model by the names of its terms, as the training writes them into a file.
struct NamedWeights {
    std::string trained_on;  ///< one line
    std::vector<std::string> terms;
    std::vector<double> weights;  ///< of each term
};

}  // namespace cohort
