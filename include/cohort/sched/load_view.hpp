#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sched/predictor.hpp"
#include "cohort/sched/stragglers.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// Which workers compute an iteration, and since when, as the coordinator sees it: a worker
/// computes one when it has a mini-batch and has the parameters for it, or is receiving them. A
/// worker that waits for others computes none.
///
/// Seen from the coordinator an iteration takes longer than the own time: servers work on
/// the update that it begins with, others use the network. How much longer is measured with every
/// record. Pure; one thread.
class ActiveIterations {
public:
    explicit ActiveIterations(int workers) : rows_(static_cast<std::size_t>(workers)) {}

    /// A worker begins an iteration, which replaces the one it was in, if any. @param now_s seconds
    /// of training @param samples  of its mini-batch
    void begun(int worker, double now_s, std::int64_t samples);
    /// The worker is in no iteration: it gave up its mini-batch and has no other.
    void stopped(int worker) { row(worker).begun_s.reset(); }
    /// The worker's push was received, with this record: its iteration is over.
    void ended(const IterationRecord& record);
    /// The worker was lost or restarts: its earlier iterations no longer count.
    void forget(int worker) { row(worker) = {}; }

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(rows_.size()); }
    /// Begin of the worker's present iteration, seconds of training; none: it computes none.
    [[nodiscard]] std::optional<double> begun_s(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker)).begun_s;
    }
    /// Samples of the worker's present mini-batch.
    [[nodiscard]] std::int64_t samples(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker)).samples;
    }
    /// Seconds that a worker's iterations take beside its own time, and how far from that
    /// they are (means of some ten).
    [[nodiscard]] double beside_s(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker)).beside_s;
    }
    [[nodiscard]] double beside_noise_s(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker)).beside_noise_s;
    }

private:
    struct Row {
        std::optional<double> begun_s;
        std::int64_t samples = 0;
        std::int64_t measured = 0;  ///< iterations
        double beside_s = 0;
        double beside_noise_s = 0;
    };
    [[nodiscard]] Row& row(int worker) { return rows_.at(static_cast<std::size_t>(worker)); }

    std::vector<Row> rows_;
};

/// What was measured of gradients; 0: not known.
struct GradientFacts {
    double noise_scale = 0;  ///< phi, samples
    double loss = 0;         ///< of training, nats, smoothed
};

/// What those who choose modes look at, besides Telemetry's counts. Valid until the
/// load monitor is told of something again.
struct LoadView {
    const TelemetryHistory* history = nullptr;
    const StragglerDetector* stragglers = nullptr;
    const ActiveIterations* running = nullptr;  ///< null: not known
    Forecast forecast;  ///< empty while the mode in charge uses none, see ModePolicy
    GradientFacts gradients;
};

}  // namespace cohort
