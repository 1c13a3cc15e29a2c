#include "cohort/core/statistics.hpp"

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

double median(std::vector<double> values) {
    if (values.empty()) {
        fail<UsageError>({.where = "median", .what = "no values"});
    }
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace cohort
