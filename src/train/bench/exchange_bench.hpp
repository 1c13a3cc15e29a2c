#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/comm/world.hpp"
#include "core/bytes.hpp"

namespace cohort {

struct ExchangeBenchOptions {
    /// "allreduce": the ring exchange; "push-pull": parameter servers; for comparison with plain
    /// MPI "mpi-allreduce" and "streams", the same bytes between the same ranks.
    std::string op = "allreduce";
    std::int64_t bytes = 25'000'000;      ///< of the parameters; rounded up to whole lines
    std::int64_t repetitions = 20;        ///< timed ones
    int servers = 1;                      ///< push-pull, streams
    std::string algorithm = "auto";       ///< allreduce: "auto", "ring", "ordered", "mpi", "nccl"
    std::int64_t bucket_bytes = 4 << 20;  ///< allreduce
    std::int64_t chunk_bytes = 1 << 20;   ///< push-pull
    int threads = 1;                      ///< push-pull: of each server
};

/// What rank 0 reports; on other ranks only `rank` counts.
struct ExchangeBenchResult {
    int rank = 0;
    int ranks = 1;
    std::int64_t bytes = 0;  ///< what was exchanged, after rounding
    std::string algorithm;   ///< in use; empty where there is no choice
    double median_s = 0;     ///< of a repetition, at the first worker
    double min_s = 0;
    /// The bandwidth that an ideal exchange would need for the same time (nccl-tests' definition):
    /// all-reduce 2 (n-1)/n bytes / s with n ranks; push-pull 2 bytes workers / s.
    double bus_gb_per_s = 0;
    double cpu_s = 0;     ///< CPU seconds of all ranks together, per repetition
    bool correct = true;  ///< sums were as they must be, on all ranks
};

/// Times an exchange between all ranks of the job. Collective; blocks. MPI is started and ended
/// inside, so once per process. With "nccl" the buffers lie on GPUs, which the ranks of a host go
/// round. Errors: UsageError, PeerError, DeviceError.
[[nodiscard]] ExchangeBenchResult bench_exchange(const ExchangeBenchOptions& options);

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
