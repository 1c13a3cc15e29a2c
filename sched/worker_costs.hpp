#pragma once

#include <cstdint>
#include <vector>

#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// Seconds of something that grows with samples, in part.
struct CostLine {
    double fixed_s = 0;
    double sample_s = 0;
    [[nodiscard]] double at(double samples) const noexcept { return fixed_s + sample_s * samples; }
};

/// Least squares through (samples, seconds), newer points count more, with the ratio of the fixed
/// part drawn towards what is assumed as long as points of one size cannot tell it.
class LineFit {
public:
    void add(double samples, double seconds);
    void restart() { *this = {}; }
    [[nodiscard]] bool empty() const noexcept { return weight_ == 0; }
    /// Points of different sizes have been seen.
    [[nodiscard]] bool knows_slope() const noexcept;
    /// Some line through the points so far, from a fixed time to a proportional one, is as near.
    [[nodiscard]] bool explains(double samples, double seconds, double tolerance) const noexcept;
    /// @param batch  the size that `fixed_share` is meant for  @param fixed_share  of the seconds
    /// at that size, assumed, 0..1
    [[nodiscard]] CostLine line(double batch, double fixed_share) const;

private:
    double weight_ = 0;
    double x_ = 0;   ///< sums: samples
    double y_ = 0;   ///< seconds
    double xx_ = 0;  ///< their products
    double xy_ = 0;
};

/// What mini-batches cost the workers of a run: a line over the samples for input and computing, a
/// time for the transfers. Learned from records; what is proportional to the work is not known
/// before batches differ, and assumed to be all of it until then: when a worker turns out not to be
/// as quick with less work as it should be, its line says so from then on.
///
/// A time that is far off the line is a change of the worker's speed: the line begins anew, with
/// the fixed share that was found before. The first time after a change of the batch says what the
/// line is like, unless the worker's speed changes all the time. Pure.
class WorkerCosts {
public:
    /// @param pull_bytes  of the parameters; 0: not known, rates of pulls are not looked at
    WorkerCosts(int workers, std::int64_t batch, double pull_bytes);

    /// Takes the records that are new since the last call.
    void learn(const TelemetryHistory& history);
    /// Its records were forgotten: should it come back, its iterations count from the start.
    void forget(int worker);

    /// Nothing is known of it yet.
    [[nodiscard]] bool known(int worker) const { return !row(worker).work.empty(); }
    /// Input and computing.
    [[nodiscard]] CostLine work(int worker) const;
    /// Push and pull, as far as they are the worker's own.
    [[nodiscard]] double transfer_s(int worker) const { return row(worker).transfer_s; }
    /// The same as they went, crowds at the servers included, and the quickest that they were for a
    /// while.
    [[nodiscard]] double seen_transfer_s(int worker) const { return row(worker).seen_s; }
    [[nodiscard]] double quiet_transfer_s(int worker) const { return row(worker).quiet_s; }
    /// Mean relative distance of input and computing from the line, without jumps.
    [[nodiscard]] double noise(int worker) const { return row(worker).noise; }
    /// Own time of the newest records on the scale of TelemetryHistory::scaled_own_s.
    [[nodiscard]] double level_s(int worker) const { return row(worker).level_s.now; }
    /// What an iteration like the record's would take with the reference batch, by the line; and
    /// the newest ones on that scale.
    [[nodiscard]] double even_own_s(int worker, const IterationRecord& record) const;
    [[nodiscard]] double even_level_s(int worker) const { return row(worker).even_s.now; }
    /// Records that were taken.
    [[nodiscard]] std::int64_t records() const noexcept { return records_; }

private:
    /// Mean of the newest values since the last change that was more than noise.
    struct Level {
        double now = 0;
        void take(double value, double noise);
    };
    struct Row {
        LineFit work;
        std::int64_t iteration = 0;  ///< newest that was taken
        std::int64_t samples = 0;    ///< of it
        double fixed_share = 0;      ///< of input and computing at `batch`
        double noise = 0;            ///< mean relative distance from the line
        double jumps = 0;            ///< recent ones
        double transfer_s = 0;
        double seen_s = 0;
        double quiet_s = 0;
        Level level_s;
        Level even_s;
    };
    void learn(Row& row, const IterationRecord& record, double scaled_s) const;
    [[nodiscard]] double even_own_s(const Row& row, const IterationRecord& record) const;
    void learn_work(Row& row, const IterationRecord& record) const;
    void learn_transfers(Row& row, const IterationRecord& record) const;
    [[nodiscard]] const Row& row(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker));
    }

    double batch_;
    double pull_bytes_;
    std::vector<Row> rows_;
    std::int64_t records_ = 0;
};

}  // namespace cohort
