#pragma once

#include <cstdint>
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

/// A worker is slow for a while.
struct StragglerEpisode {
    int worker = 0;
    StragglerCause cause = StragglerCause::kCpu;
    bool by_lag = false;  ///< seen by its lag, not by its own time
    double begin_s = 0;   ///< clock of the records
    double end_s = 0;     ///< last seen slow; of an open one so far
    std::int64_t iterations = 0;
    double slowdown = 1;  ///< mean of tau_i / min tau over it
    [[nodiscard]] double duration_s() const noexcept { return end_s - begin_s; }
};

/// Who is a straggler.
///
/// By time: (tau_i - min tau) / min tau > 0.2 (STAR, section 3), tau of a worker being the median
/// of its last three own times, so that one late iteration among good ones is none; min tau the
/// least of the live workers'. It ends when that falls below 0.1. By lag: a push that lags by more
/// than `lag_bound` reference batches (SaPS); it ends with the first one within. Pure.
class StragglerDetector {
public:
    /// @param lag_bound  reference batches; 0: stragglers are seen by time only
    StragglerDetector(int workers, std::int64_t batch, double lag_bound = 0);

    /// A record of a live worker. Own times are scaled to the batch.
    void add(const IterationRecord& record);
    /// It is gone; its episode ends.
    void lost(int worker, double now_s);

    /// Open episodes, by worker.
    [[nodiscard]] const std::vector<std::optional<StragglerEpisode>>& open() const noexcept {
        return open_;
    }
    /// Episodes that began or ended since the last call, for logs and metrics: an open one has
    /// begun.
    struct News {
        bool ended = false;
        StragglerEpisode episode;
    };
    [[nodiscard]] std::vector<News> take_news();
    /// How long stragglers last, mean over those that ended and the open ones so far; 0: none yet.
    [[nodiscard]] double mean_duration_s() const noexcept;

private:
    struct Recent;
    std::int64_t batch_;
    double lag_bound_;
    TelemetryHistory recent_;
    std::vector<std::optional<StragglerEpisode>> open_;
    std::vector<News> news_;
    double ended_s_ = 0;
    std::int64_t ended_ = 0;
};

}  // namespace cohort
