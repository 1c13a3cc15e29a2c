#pragma once

#include <cstdint>
#include <string>

#include "cohort/core/limits.hpp"
#include "cohort/core/thread_team.hpp"

namespace cohort {

// Ranges of the numbers that describe a job, real or virtual: far above useful values, and small
// enough that sums and products of them do not overflow.

inline constexpr Limits<std::int64_t> kBatchLimits{.least = 1, .most = 1'000'000};
/// Budgets, and intervals such as those between evaluations, in samples.
inline constexpr Limits<std::int64_t> kSamplesLimits{.least = 0, .most = 1'000'000'000'000'000};
/// Of a plan's share of the run's learning rate.
inline constexpr Limits<double> kLrScaleLimits{
    .least = 0, .most = 1, .ends = Limits<double>::Ends::kNotLeast};
inline constexpr Limits<double> kNoiseScaleLimits{.least = 0, .most = 1e15};
/// Time constant of the parameters' mean, reference batches.
inline constexpr Limits<double> kEvalAverageLimits{.least = 0, .most = 1e9};
inline constexpr Limits<double> kTargetLimits{.least = 0, .most = 1};
inline constexpr Limits<double> kTargetLossLimits{.least = 0, .most = 1e6};
/// Times by the computer's clock: up to thirty years.
inline constexpr Limits<double> kSecondsLimits{.least = 0, .most = 1e9};
inline constexpr Limits<double> kSomeSecondsLimits{
    .least = 0, .most = 1e9, .ends = Limits<double>::Ends::kNotLeast};
/// Times by a virtual clock.
inline constexpr Limits<double> kVirtualSecondsLimits{.least = 0, .most = 1e15};
inline constexpr Limits<double> kSomeVirtualSecondsLimits{
    .least = 0, .most = 1e15, .ends = Limits<double>::Ends::kNotLeast};
/// Number of workers, of servers and of nodes.
inline constexpr int kMostPlaces = 65'536;
inline constexpr Limits<int> kWorkersLimits{.least = 1, .most = kMostPlaces};
inline constexpr Limits<int> kServersLimits{.least = 0, .most = kMostPlaces};
inline constexpr Limits<int> kNodesLimits{.least = 0, .most = kMostPlaces};
inline constexpr Limits<int> kThreadsLimits{.least = 0, .most = kMaxThreads};
inline constexpr Limits<int> kSomeThreadsLimits{.least = 1, .most = kMaxThreads};
inline constexpr Limits<std::uint64_t> kSeedLimits{};

/// Checks that a batch fits into the train group of a file with `samples` samples. Errors:
/// UsageError.
inline void require_batch(std::int64_t batch, std::int64_t samples, const std::string& file) {
    require(batch <= samples, "--batch",
            fmt::format("1 to {}, the train samples of {}", samples, file), std::to_string(batch));
}

}  // namespace cohort
