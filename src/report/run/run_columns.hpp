#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "records/run/run_log.hpp"

namespace cohort {

/// Mean and extremes of a number over time; numbers that are not known do not count.
struct TimeMean {
    double seconds = 0;  ///< for which the number is known
    double sum = 0;      ///< number x seconds
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();

    void add(double value, double for_s);
    void add(const TimeMean& other);
    /// NaN: not known.
    [[nodiscard]] double mean() const { return seconds > 0 ? sum / seconds : kUnknown; }
};

/// What a worker did in a column of time: shares of its iterations' time, sums of share x seconds.
struct WorkerColumn {
    double seconds = 0;     ///< for which the shares are known
    double input_s = 0;     ///< waiting for batches
    double compute_s = 0;   ///< forward and backward
    double transfer_s = 0;  ///< push and pull
    double wait_s = 0;      ///< for other workers
    TimeMean lag;           ///< reference batches

    void add(const WorkerColumn& other);
};

/// A stretch of training time of a run.
struct RunColumn {
    TimeMean loss;
    TimeMean quality;  ///< accuracy, or R2
    TimeMean samples_per_s;
    std::vector<WorkerColumn> workers;
};

/// A run's `train` lines in columns of equal width: as wide as they must be for kMost of them to
/// cover the run, by powers of two. A window that overlaps several columns counts in each with the
/// time that they share, so sums over all columns are those over all windows. Memory: kMost columns
/// however long the run is; an add costs O(workers) amortised over a long run.
class RunColumns {
public:
    static constexpr std::size_t kMost = 512;

    /// @param begin_s  end of the window before this one
    void add(double begin_s, const TrainLine& window);

    [[nodiscard]] double width_s() const noexcept { return width_s_; }
    /// Column i has the time from i x width_s() on.
    [[nodiscard]] const std::vector<RunColumn>& all() const noexcept { return columns_; }

private:
    void widen();

    double width_s_ = 1.0 / 1024;
    std::vector<RunColumn> columns_;
};

}  // namespace cohort
