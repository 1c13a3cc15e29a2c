#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sched/telemetry.hpp"
#include "formats/trace.hpp"

namespace cohort {

/// Makes a trace of what workers say of their own times. A worker's pushes are put together for as
/// long as they take about as long: a push that takes half as long again (or is that much faster)
/// begins a new stretch at once, a smaller change does when the next push says the same.
///
/// Shares compare with the run's fastest steady worker: the one whose median time per sample is the
/// least. What a mini-batch takes to compute tells the share of the device; what it waits for
/// input, and for its gradient to leave, beyond the fastest worker's median is a delay. A constant
/// delay inside computing cannot be told from a slow device. Memory is bounded: when a worker has
/// many stretches, neighbours become one. Pure.
class TraceRecorder {
public:
    /// @param batch samples of a healthy worker's push
    TraceRecorder(int workers, std::int64_t batch);

    /// @param now_s when the push was complete
    void timed(const IterationRecord& record, double now_s);
    /// The trace so far. Its time 0 is the moment when the first push was begun.
    [[nodiscard]] std::vector<TraceRow> rows() const;

    static constexpr std::size_t kMostStretches = 4096;  ///< of a worker

private:
    /// What pushes took, and how much that was.
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
    /// Whether a push takes longer or shorter by a factor; other time counts in computing time.
    [[nodiscard]] static bool differs(const Amount& push, const Amount& from, double least);
    /// Pushes one after the other that are alike.
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
    /// What a healthy worker takes.
    struct Healthy {
        double per_sample_s = 0;
        double other_s = 0;  ///< per push
    };
    [[nodiscard]] Healthy healthy() const;
    [[nodiscard]] Shares shares_of(const Amount& amount, const Healthy& healthy) const;

    std::int64_t batch_;
    std::vector<Course> courses_;
    std::optional<double> first_s_;  ///< when the first push was begun
};

}  // namespace cohort
