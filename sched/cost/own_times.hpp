#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cohort/sched/load_view.hpp"
#include "cohort/sched/timing.hpp"

namespace cohort {

/// Seconds of work with a fixed part and a part that grows with samples.
struct CostLine {
    double fixed_s = 0;
    double sample_s = 0;
    [[nodiscard]] double at(double samples) const noexcept { return fixed_s + sample_s * samples; }
};

/// Expected time of each worker's iteration, by worker; 0 for workers that are not live.
struct LoadEstimate {
    std::vector<CostLine> cost;  ///< of a gradient; transfers included
    /// Of a push and a pull: the part that `cost` holds, since the rest is hidden behind computing,
    /// and all of it. Empty: they take no time.
    std::vector<double> visible_transfer_s;
    std::vector<double> transfer_s;

    [[nodiscard]] double own_s(std::size_t worker, std::int64_t samples) const {
        return cost.at(worker).at(static_cast<double>(samples));
    }
    /// Of an iteration of `steps` local steps: a push and a pull after all of them.
    /// @param samples  of a step
    [[nodiscard]] double own_s(std::size_t worker, std::int64_t samples, int steps) const {
        const double one_s = own_s(worker, samples);
        return steps == 1 || transfer_s.empty()
                   ? steps * one_s
                   : steps * (one_s - visible_transfer_s.at(worker)) + transfer_s.at(worker);
    }
};

/// Statistical model of workers' own times: levels, variation, and draws of whole courses for the
/// timing of plans.
///
/// Times are logarithms, scaled to a full batch, over the newest kMemory iterations of each worker.
/// A worker's *state* is the newest part of them whose mean differs from the part before by more
/// than kSure standard errors; without such a part it is all of them. The *level* of a worker is
/// the mean of its state, drawn towards the common level (the median of all) as far as the distance
/// may be chance: a distance d with standard error v becomes d (1 - kSure^2 v^2 / d^2), or 0 when d
/// < kSure v (Breiman's garrote, 1995). So workers whose times merely vary share one level, and
/// work is not moved to workers that were fast by chance.
///
/// A running iteration counts as soon as it has lasted kSure deviations longer than expected: it is
/// then expected to last as long again. Pure.
class OwnTimes {
public:
    static constexpr std::size_t kMemory = 128;  ///< iterations
    static constexpr double kSure = 4;           ///< standard errors beyond chance

    /// @param batch  samples of a full one
    /// @param parameter_bytes  of a push and of a pull; 0: not known, rates are ignored
    OwnTimes(int workers, std::int64_t batch, double parameter_bytes);

    /// Fits the model to the present records. @param live  workers
    void look(const LoadView& view, const std::vector<int>& live, double now_s);
    /// Discards what was learned about the worker.
    void forget(int worker);

    /// More than half of the workers have records.
    [[nodiscard]] bool ready() const noexcept { return 2 * known_ > live_.size(); }
    /// Workers without records count as average.
    [[nodiscard]] LoadEstimate estimate() const;
    /// Age in iterations of the youngest state of a worker. The present states are expected to last
    /// as long again.
    [[nodiscard]] double state_age() const noexcept;
    /// Draws possible courses: blocks of records that are aligned in time over the workers. For as
    /// many iterations as its state is old a worker stays at its level, with the variation of its
    /// records; after that its times are those of the records. @param seed  equal seeds give equal
    /// draws
    [[nodiscard]] TimeDraws draw(int replicates, int iterations, std::uint64_t seed) const;
    /// Workers whose level is above the common level by a fifth or more.
    [[nodiscard]] std::vector<int> slow() const;
    /// The worker's level relative to the common level.
    [[nodiscard]] double slowness(int worker) const;
    /// Standard deviation of the logarithms within a worker's state, mean over the workers.
    [[nodiscard]] double variation() const noexcept { return variation_; }

    /// When a running iteration will have lasted too long, seconds of training; none: none can.
    [[nodiscard]] std::optional<double> wake_at(const ActiveIterations& running) const;

private:
    static constexpr std::size_t kShares = 11;  ///< fixed shares that are compared: 0, 0.1, ... 1

    /// Share of an iteration's work that does not depend on the batch: learned when batches change.
    struct FixedShare {
        std::array<double, kShares> cost{};  ///< negative log likelihood
        std::int64_t iteration = 0;          ///< newest record that was used
        double samples = 0;                  ///< samples of a step of that record
        double before_samples = 0;           ///< samples of the batches before the last change
        double before_log = 0;               ///< mean logarithm of the work before the change
        double now_log = 0;                  ///< mean logarithm of the work since the change
        int now = 0;                         ///< records since the change
    };
    struct Row {
        std::vector<float> logs;      ///< own times of full batches, the oldest first
        std::vector<float> local;     ///< distances of `logs` from the mean around them
        std::vector<double> when_s;   ///< arrival
        double own_s = 0;             ///< recent mean of own times
        double transfer_s = 0;        ///< recent mean of a gradient's, without the hidden part
        double whole_transfer_s = 0;  ///< recent mean of all of it
        double hidden_s = 0;   ///< most of a gradient's push that backward has hidden; kept while
                               ///< only local steps are recorded
        int steps = 1;         ///< of the newest record
        double noise = 0;      ///< deviation of a single time
        std::size_t age = 0;   ///< age of the state, records
        bool changed = false;  ///< there was another state before
        double mean = 0;       ///< mean of the state
        double level = 0;
        double looked_s = 0;  ///< seconds that the running iteration had lasted at the last look
        double begun_s = -1;  ///< begin of that iteration
    };

    /// Of a push and a pull, seconds.
    struct Transfer {
        double visible_s = 0;  ///< of a gradient: what backward does not hide
        double whole_s = 0;
    };

    void take(FixedShare& share, const IterationRecord& record, double noise) const;
    [[nodiscard]] double fixed_share(int worker) const;
    [[nodiscard]] Transfer transfer_of(const Row& row, const IterationRecord& record) const;
    [[nodiscard]] double work_s(int worker, const IterationRecord& record) const;
    void read(Row& row, int worker, const TelemetryHistory& history) const;
    void measure_noise();
    void find_state(Row& row) const;
    void find_late(const ActiveIterations& running, double now_s);
    void find_levels();
    [[nodiscard]] double allowed_s(int worker, const ActiveIterations& running) const;

    double batch_;
    double parameter_bytes_;
    std::vector<FixedShare> shares_;
    std::vector<Row> rows_;
    std::vector<int> live_;
    std::size_t known_ = 0;
    double common_ = 0;       ///< common level
    double variation_ = 0.1;  ///< see variation()
};

}  // namespace cohort
