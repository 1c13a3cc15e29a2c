#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// What makes a worker slow.
enum class StragglerCause : std::uint8_t {
    kCpu,        ///< its share of the processors
    kBandwidth,  ///< sending and receiving
    kInput,      ///< waiting for batches
    kDevice,     ///< computing, with all the processor time it wanted
    kLag         ///< nothing measured explains it: its parameters are old
};
/// "cpu", "bandwidth", "input", "device", "lag".
[[nodiscard]] std::string_view to_string(StragglerCause cause) noexcept;
inline constexpr int kStragglerCauses = 5;

/// A worker is slow for a while.
struct StragglerEpisode {
    int worker = 0;
    StragglerCause cause = StragglerCause::kCpu;
    bool by_lag = false;  ///< seen by its lag, not by its own time
    double begin_s = 0;   ///< clock of the records: when its first slow iteration began
    double end_s = 0;     ///< last seen slow; of an open one so far
    std::int64_t iterations = 0;
    double slowdown = 1;  ///< mean of tau_i / min tau over it
    [[nodiscard]] double duration_s() const noexcept { return end_s - begin_s; }
};

/// Who is a straggler, for those who choose; straggler_news.hpp says what people are told of it.
///
/// By time: (tau_i - min tau) / min tau > 0.2 (STAR, section 3). A single late iteration is none,
/// and noise is none: both sides of the comparison are means of log tau over the newest m records
/// of a worker, in which an outlier counts for less than the threshold. m = 2 where times are
/// steady. Where they vary by sigma (measured, from one record of a worker to its next) two
/// iterations say little: then longer windows up to 16 are looked at too, each with the larger of
/// 20 % and 6.8 sigma / sqrt(m), so that the range of some dozen workers' means stays within for
/// hours. The least of N noisy means lies below the common one by what the least of N normal
/// numbers does; that is added to min tau. So a slowness of 25 % is seen after 2 iterations without
/// noise, after 2 to 5 with 5 % of it, after some 8 with 8 %; a larger one sooner.
/// It ends when a mean falls below 10 %. The first record of a worker does not count: everything is
/// cold then.
///
/// A worker beside a server sends for nothing, and is no measure for those who cannot: tau counts
/// transfers as at least as long as the median worker's.
///
/// By lag: a push that lags by more than `lag_bound` reference batches (SaPS); it ends with the
/// first one within.
///
/// The cause is the part of tau that grew most, against the worker's own parts before the episode,
/// or while it has shown none, the median parts of others: sending and receiving; input or
/// computing, where a processor share below nine tenths of the usual one says cpu. Nothing grew by
/// a twentieth: lag. Pure; an add costs O(log N).
class StragglerDetector {
public:
    /// @param lag_bound  reference batches; 0: stragglers are seen by time only
    StragglerDetector(int workers, std::int64_t batch, double lag_bound = 0);
    ~StragglerDetector();
    StragglerDetector(StragglerDetector&&) noexcept;
    StragglerDetector& operator=(StragglerDetector&&) noexcept;

    /// A record of a live worker, of at least one sample. Own times are scaled to the batch.
    void add(const IterationRecord& record);
    /// It is gone, or begins anew; its episode ends.
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
