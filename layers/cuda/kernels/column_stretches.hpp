#pragma once

#include <cstdint>

// Sums over the rows of a matrix in two launches: a block of kSumColumns x kSumRows threads sums
// as many columns of a stretch of rows, then the stretches are added up, first to last.
namespace cohort::cuda {

inline constexpr int kSumColumns = 32;
inline constexpr int kSumRows = 8;

/// Rows of a stretch, a multiple of kSumRows.
[[nodiscard]] constexpr std::int64_t stretch_rows(std::int64_t rows) noexcept {
    constexpr std::int64_t kLeast = 256;         // rows of a block
    constexpr std::int64_t kMostStretches = 64;  // summed by one thread
    const std::int64_t least = (rows + kMostStretches - 1) / kMostStretches;
    const std::int64_t wanted = least < kLeast ? kLeast : least;
    return (wanted + kSumRows - 1) / kSumRows * kSumRows;
}
[[nodiscard]] constexpr std::int64_t stretches_of(std::int64_t rows) noexcept {
    return (rows + stretch_rows(rows) - 1) / stretch_rows(rows);
}

}  // namespace cohort::cuda
