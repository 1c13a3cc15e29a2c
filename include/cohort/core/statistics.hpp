#pragma once

#include <vector>

namespace cohort {

/// Middle value; the mean of the two middle ones for an even count. Errors: UsageError for none.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace cohort
