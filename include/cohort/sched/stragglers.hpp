#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/core/words.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// What makes a worker slow.
enum class StragglerCause : std::uint8_t {
    kCpu,        ///< its share of the processors
    kBandwidth,  ///< sending and receiving
    kInput,      ///< waiting for batches
    kDevice,     ///< computing, with all the processor time it wanted
    kLag,        ///< no measured part explains the slowness: only the lag is large
    // Computing, on a GPU that said why; in the order of DeviceLimit.
    kGpuThermal,
    kGpuSlowdown,
    kGpuEcc,
    kGpuPower,
    kGpuShared
};
template <>
inline constexpr auto kWords<StragglerCause> =
    std::to_array<std::string_view>({"cpu", "bandwidth", "input", "device", "lag", "gpu-thermal",
                                     "gpu-slowdown", "gpu-ecc", "gpu-power", "gpu-shared"});

/// A worker is slow for a while.
struct StragglerEpisode {
    int worker = 0;
    StragglerCause cause = StragglerCause::kCpu;
    bool by_lag = false;  ///< seen by its lag, not by its own time
    double begin_s = 0;   ///< clock of the records: when its first slow iteration began
    double end_s = 0;     ///< end of the last slow iteration; of an open episode so far
    std::int64_t iterations = 0;
    double slowdown = 1;  ///< mean of tau_i / min tau over the episode
    [[nodiscard]] double duration_s() const noexcept { return end_s - begin_s; }
};

/// Finds stragglers, for choosers; straggler_news.hpp has the reports for people.
/// By time: (tau_i - min tau) / min tau > 0.2 (STAR, section 3). A single late iteration makes no
/// straggler, nor does noise: both sides of the comparison are means of log tau over the newest m
/// records of a worker, in which an outlier counts for less than the threshold. m = 2 where times
/// are steady. Where they vary by sigma (measured from one record of a worker to its next) two
/// iterations are not enough: longer windows up to 16 are then compared too, each with the larger
/// of 20 % and 6.8 sigma / sqrt(m) as threshold, so that the means of some dozen healthy workers
/// stay within it for hours. The minimum of N noisy means is below the common mean by the expected
/// minimum of N normal numbers; that difference is added to min tau. So a slowness of 25 % is found
/// after 2 iterations without noise, after 2 to 5 with 5 % of noise, after some 8 with 8 %; a
/// larger slowness sooner. An episode ends when a mean falls below 10 %. The first record of a
/// worker does not count: caches are cold then.
///
/// A worker on a server's node has almost no transfer times, so it is no measure for workers
/// elsewhere: tau counts transfers as at least as long as the median worker's. By lag: an episode
/// begins with a push that lags by more than `lag_bound` reference batches (SaPS) and ends with the
/// first push that does not.
///
/// The cause is the part of tau that grew most, relative to the worker's own parts before the
/// episode or, if it has none, to the median parts of other workers: sending and receiving; input
/// or computing, where a processor share below nine tenths of the usual share means cpu. Computing
/// on a GPU that was held back by something in more than half of the slow records, and more often
/// than usual, is explained by what became more frequent the most. If no part
/// grew by a twentieth, the cause is lag. Pure; an add costs O(log N).
class StragglerDetector {
public:
    /// @param lag_bound  reference batches; 0: stragglers are seen by time only
    StragglerDetector(int workers, std::int64_t batch, double lag_bound = 0);
    ~StragglerDetector();
    StragglerDetector(StragglerDetector&&) noexcept;
    StragglerDetector& operator=(StragglerDetector&&) noexcept;

    /// A record of a live worker, of at least one sample. Own times are scaled to the batch.
    void add(const IterationRecord& record);
    /// The worker was lost or has joined again; its episode ends.
    void lost(int worker);

    /// Open episodes, by worker.
    [[nodiscard]] const std::vector<std::optional<StragglerEpisode>>& open() const noexcept;
    /// sigma: deviation of log tau from one record to the next of the same worker.
    [[nodiscard]] double noise() const noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
