#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "cohort/comm/world.hpp"
#include "core/bytes.hpp"
#include "train/bench/exchange_bench.hpp"

namespace cohort {

/// Repetitions before the timed ones.
inline constexpr std::int64_t kExchangeWarmup = 3;

/// What one rank measured.
struct ExchangeReport {
    std::vector<double> seconds;  ///< of each timed repetition
    double cpu_s = 0;             ///< of the rank, during the timed repetitions
    bool correct = true;
    auto fields() { return std::tie(seconds, cpu_s, correct); }
};

/// Times the parameter servers with workers that compute nothing. Collective over the world.
/// @return on rank 0 the first worker's times, with the CPU seconds and verdicts of all ranks
[[nodiscard]] ExchangeReport run_push_pull(World& world, const ExchangeBenchOptions& options);

/// Bytes that push-pull moves for `bytes`: whole 64-byte lines.
[[nodiscard]] std::int64_t push_pull_bytes(std::int64_t bytes) noexcept;

/// A rank's report to rank 0, and rank 0's wait for one from each of `count` ranks, in any order;
/// adds them to `all`, with the times of rank `first`.
void send_report(World& world, ExchangeReport report);
void add_reports(World& world, int count, int first, ExchangeReport& all);

}  // namespace cohort
