#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cohort/sched/load_desk.hpp"
#include "cohort/sched/timing.hpp"

namespace cohort {

/// Seconds of something that grows with samples, in part.
struct CostLine {
    double fixed_s = 0;
    double sample_s = 0;
    [[nodiscard]] double at(double samples) const noexcept { return fixed_s + sample_s * samples; }
};

/// What an iteration of each worker is expected to take, by worker; 0 for those who are not live.
struct LoadEstimate {
    std::vector<CostLine> cost;  ///< transfers included

    [[nodiscard]] double own_s(std::size_t worker, std::int64_t samples) const {
        return cost.at(worker).at(static_cast<double>(samples));
    }
};

/// What workers' own times are like, and what may come: their levels, how they vary, and draws of
/// whole courses to time plans on.
///
/// Times are looked at as logarithms, on the scale of a full batch, over the newest kMemory
/// iterations of each worker. A worker's *state* is the newest part of them whose mean differs from
/// the part before by more than kSure standard errors; without such a part it is all of them. The
/// *level* of a worker is the mean of its state, drawn towards the common one (the median of all)
/// as far as it may be chance: what is left of a distance d with standard error v is
/// d (1 - kSure^2 v^2 / d^2), and nothing when d < kSure v (Breiman's garrote, 1995). So workers
/// that only vary have one level, and nobody hands work to who was lucky.
///
/// An iteration that is still running counts as soon as it has lasted kSure deviations longer than
/// it should: it is taken to last as long again. Pure.
class OwnTimes {
public:
    static constexpr std::size_t kMemory = 128;  ///< iterations
    static constexpr double kSure = 4;           ///< standard errors that are no chance

    /// @param batch  samples of a full one
    /// @param pull_bytes  of the parameters; 0: not known, rates of pulls are not looked at
    OwnTimes(int workers, std::int64_t batch, double pull_bytes);

    /// Looks at all that is known now. @param live  workers
    void look(const LoadView& view, const std::vector<int>& live, double now_s);
    /// What was recorded of it counts no more.
    void forget(int worker);

    /// Something is known of more than half of the workers.
    [[nodiscard]] bool ready() const noexcept { return 2 * known_ > live_.size(); }
    /// Of whom nothing is known is like the others.
    [[nodiscard]] LoadEstimate estimate() const;
    /// Iterations for which the present state has lasted: of the worker whose state is the
    /// youngest. It is expected to last as long again.
    [[nodiscard]] double state_age() const noexcept;
    /// Courses that may come: records drawn in blocks that are aligned in time over the workers. As
    /// many iterations as its state is old a worker stays at its level, with the variation of its
    /// records; after that they are as they were recorded. @param seed  the same one draws the same
    [[nodiscard]] TimeDraws draw(int replicates, int iterations, std::uint64_t seed) const;
    /// Those whose level is above the common one by a fifth or more.
    [[nodiscard]] std::vector<int> slow() const;
    /// Level over the common one.
    [[nodiscard]] double slowness(int worker) const;
    /// Standard deviation of the logarithms within a worker's state, mean over the workers.
    [[nodiscard]] double variation() const noexcept { return variation_; }

    /// When a running iteration will have lasted too long, seconds of training; none: none can.
    [[nodiscard]] std::optional<double> wake_at(const ActiveIterations& running) const;

private:
    static constexpr std::size_t kShares = 11;  ///< fixed shares that are weighed: 0, 0.1, ... 1

    /// How much of an iteration's work is there whatever the batch: learned when batches change.
    struct FixedShare {
        std::array<double, kShares> cost{};  ///< negative log likelihood
        std::int64_t iteration = 0;          ///< newest record that was taken
        std::int64_t samples = 0;            ///< of it
        double before_samples = 0;           ///< of the batches before the last change
        double before_log = 0;               ///< mean logarithm of their work
        double now_log = 0;                  ///< the same of those since
        int now = 0;                         ///< records since
    };
    struct Row {
        bool live = false;
        std::vector<float> logs;     ///< own times of full batches, the oldest first
        std::vector<float> local;    ///< their distances from the mean around them
        std::vector<double> when_s;  ///< arrival
        double transfer_s = 0;       ///< mean of the newest
        double noise = 0;            ///< of a single one
        std::size_t age = 0;         ///< of the state, records
        bool changed = false;        ///< there was another one before
        double mean = 0;             ///< of the state
        double level = 0;
        double looked_s = 0;  ///< that a running iteration had lasted when it was looked at
        double begun_s = -1;  ///< that iteration
        double late_log = 0;  ///< what it is taken to be; 0: it is not late
    };

    void take(FixedShare& share, const IterationRecord& record, double noise) const;
    [[nodiscard]] double fixed_share(int worker) const;
    [[nodiscard]] double transfer_s(const IterationRecord& record) const;
    [[nodiscard]] double full_batch_s(int worker, const IterationRecord& record) const;
    void read(Row& row, int worker, const TelemetryHistory& history) const;
    void measure_noise();
    void find_state(Row& row) const;
    void find_late(const ActiveIterations& running, double now_s);
    void find_levels();
    [[nodiscard]] double allowed_s(int worker, const ActiveIterations& running) const;

    double batch_;
    double pull_bytes_;
    std::vector<FixedShare> shares_;
    std::vector<Row> rows_;
    std::vector<int> live_;
    std::size_t known_ = 0;
    double common_ = 0;       ///< level
    double variation_ = 0.1;  ///< see variation()
};

}  // namespace cohort
