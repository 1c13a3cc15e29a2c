#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/core/resource_use.hpp"

namespace cohort {

/// One iteration of one worker: rides on its push, or on a ring's control tail. Durations of the
/// worker's monotonic clock.
struct IterationRecord {
    int worker = 0;
    std::int64_t iteration = 0;  ///< of the worker, from 1
    std::int64_t samples = 0;
    std::int64_t version = 0;  ///< of the parameters it was computed on
    double arrived_s = 0;      ///< the coordinator's clock
    double input_s = 0;        ///< waiting for the batch
    double compute_s = 0;      ///< forward and backward, device-synchronised
    double push_s = 0;         ///< sending past the end of backward; 0 for a ring's members
    double pull_s = 0;  ///< receiving the parameters it was computed on; in a ring the exchange
                        ///< that made them: the round's minimum over members, since the last to
                        ///< arrive shows the shortest one
    double wait_s = 0;  ///< before that, released late because others were late: not its own time
    double lag = 0;     ///< reference batches, when it arrived
    ResourceUse use;
    double telemetry_s = 0;  ///< what finding out the rest cost the worker

    /// tau: without waiting for others.
    [[nodiscard]] double own_s() const noexcept { return input_s + compute_s + push_s + pull_s; }
    /// Of tau, what goes over the network.
    [[nodiscard]] double transfer_s() const noexcept { return push_s + pull_s; }
    /// The same if it had been so many samples: input and computing grow with them, transfers do
    /// not. 0 when it has no samples.
    [[nodiscard]] double own_s(std::int64_t batch) const noexcept {
        return samples <= 0 ? 0
                            : (input_s + compute_s) * static_cast<double>(batch) /
                                      static_cast<double>(samples) +
                                  push_s + pull_s;
    }
};

/// The newest records of every worker, a fixed number each. Pure.
class TelemetryHistory {
public:
    static constexpr std::size_t kDepth = 256;
    /// Fewer for many workers, so that all stay small; at least what a late predictor needs.
    [[nodiscard]] static std::size_t depth_for(int workers) noexcept;

    /// @param batch  samples to which own times are scaled
    TelemetryHistory(int workers, std::int64_t batch, std::size_t depth = kDepth);

    /// @param record  of at least one sample
    void add(const IterationRecord& record);
    /// What was recorded of it counts no more: it was lost, or began anew.
    void forget(int worker);

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(rows_.size()); }
    [[nodiscard]] std::int64_t batch() const noexcept { return batch_; }
    /// Records that are kept of a worker.
    [[nodiscard]] std::size_t size(int worker) const { return row(worker).count; }
    /// @param age  0: the newest; below size(worker)
    [[nodiscard]] const IterationRecord& record(int worker, std::size_t age) const;
    /// Records ever added, of all workers.
    [[nodiscard]] std::int64_t added() const noexcept { return added_; }
    /// Own time of a record with what grows with samples (input, computing) scaled to batch()
    /// samples; a gradient is as long whatever it was computed on.
    [[nodiscard]] double scaled_own_s(const IterationRecord& record) const;

private:
    struct Row {
        std::vector<IterationRecord> records;  ///< a ring that grows up to the depth
        std::size_t next = 0;
        std::size_t count = 0;
    };
    [[nodiscard]] const Row& row(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker));
    }

    std::int64_t batch_;
    std::size_t depth_;
    std::int64_t added_ = 0;
    std::vector<Row> rows_;
};

}  // namespace cohort
