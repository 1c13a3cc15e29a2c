#pragma once

#include <vector>

namespace cohort {

using Matrix = std::vector<std::vector<double>>;  ///< [rows][columns]

/// x of a x = b, by Cholesky's decomposition. @param a  symmetric, positive definite
[[nodiscard]] std::vector<double> solve(Matrix a, std::vector<double> b);

}  // namespace cohort
