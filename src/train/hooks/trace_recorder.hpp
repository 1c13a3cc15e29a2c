#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sched/telemetry.hpp"
#include "sched/recorded/trace.hpp"

namespace cohort {

/// Makes a trace from workers' records of their own times. Successive pushes of a worker with about
/// the same time form a stretch: a push that takes half as long again (or is that much faster)
/// begins a new stretch at once, a smaller change does when the next push confirms it.
///
/// Shares are relative to the run's fastest steady worker, the worker with the smallest median time
/// per sample. The computing time of a mini-batch gives the share of the device; the time of
/// waiting for input and of sending the gradient, beyond the fastest worker's median, is a delay. A
/// constant delay inside computing cannot be distinguished from a slow device. Memory is bounded:
/// when a worker has many stretches, neighbours are merged. Pure.
class TraceRecorder {
public:
    /// @param batch samples of a healthy worker's push
    TraceRecorder(int workers, std::int64_t batch);

    /// @param now_s  time when the push was complete
    void timed(const IterationRecord& record, double now_s);
    /// The trace so far. Its time 0 is the begin of the first push.
    [[nodiscard]] std::vector<TraceRow> rows() const;

    static constexpr std::size_t kMostStretches = 4096;  ///< of a worker

private:
    /// Times of pushes, and the amount of work.
    struct Amount {
        std::int64_t samples = 0;
        std::int64_t pushes = 0;
        double compute_s = 0;
        double other_s = 0;  ///< waiting for input, sending
        void add(const Amount& more) noexcept;
        [[nodiscard]] double per_sample() const noexcept {
            return compute_s / static_cast<double>(samples);
        }
        [[nodiscard]] double other_per_push() const noexcept {
            return other_s / static_cast<double>(pushes);
        }
    };
    /// Whether a push takes longer or shorter by a factor; other time is measured in computing
    /// time.
    [[nodiscard]] static bool differs(const Amount& push, const Amount& from, double least);
    /// Successive pushes with about the same time.
    struct Stretch {
        double begin_s = 0;
        Amount amount;
    };
    struct Course {
        std::vector<Stretch> stretches;
        /// A push that differs a little from the last stretch; the next one says whether a new
        /// stretch has begun.
        std::optional<Stretch> odd;
        void take(const Stretch& push);
        void settle_odd();
        void merge_neighbours();
    };
    /// Times of a healthy worker.
    struct Healthy {
        double per_sample_s = 0;
        double other_s = 0;  ///< per push
    };
    [[nodiscard]] Healthy healthy() const;
    [[nodiscard]] Shares shares_of(const Amount& amount, const Healthy& healthy) const;

    std::int64_t batch_;
    std::vector<Course> courses_;
    std::optional<double> first_s_;  ///< begin of the first push
};

}  // namespace cohort
