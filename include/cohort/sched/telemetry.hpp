#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "cohort/core/resource_use.hpp"

namespace cohort {

/// One iteration of one worker: sent with its push, or with the tail of a ring's round. Durations
/// by the worker's monotonic clock.
struct IterationRecord {
    int worker = 0;
    std::int64_t iteration = 0;  ///< of the worker, from 1
    std::int64_t samples = 0;
    std::int32_t steps = 1;    ///< local steps that the samples were computed in
    std::int64_t version = 0;  ///< version of the parameters that the iteration was computed on
    double arrived_s = 0;      ///< the coordinator's clock
    double input_s = 0;        ///< waiting for the batch
    double compute_s = 0;      ///< forward and backward, device-synchronised
    double push_s = 0;         ///< sending after the end of backward; 0 for a ring's members
    double pull_s = 0;  ///< receiving the parameters of the iteration; in a ring the exchange that
                        ///< produced them, as the minimum over the round's members, since the
                        ///< member that arrives last measures the shortest exchange
    double wait_s = 0;  ///< waiting before pull_s, because others were late: not part of own time
    double lag = 0;     ///< reference batches, at the push's arrival
    ResourceUse use;
    double telemetry_s = 0;  ///< time that the worker spent on measuring this record

    /// tau: without waiting for others.
    [[nodiscard]] double own_s() const noexcept { return input_s + compute_s + push_s + pull_s; }
    /// The part of tau spent on the network.
    [[nodiscard]] double transfer_s() const noexcept { return push_s + pull_s; }
    /// tau scaled to `batch` samples: input and computing grow with the samples, transfers do not.
    /// 0 for a record without samples.
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
    /// Records kept per worker: fewer for many workers, so that the total stays small; at least as
    /// many as a predictor needs that starts late.
    [[nodiscard]] static std::size_t depth_for(int workers) noexcept;

    /// @param batch  samples to which own times are scaled
    TelemetryHistory(int workers, std::int64_t batch, std::size_t depth = kDepth);

    /// @param record  of at least one sample
    void add(const IterationRecord& record);
    /// Discards the worker's records: it was lost or has joined again.
    void forget(int worker) { rows_.at(static_cast<std::size_t>(worker)).clear(); }

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(rows_.size()); }
    [[nodiscard]] std::int64_t batch() const noexcept { return batch_; }
    /// Number of records kept for a worker.
    [[nodiscard]] std::size_t size(int worker) const { return row(worker).size(); }
    /// @param age  0: the newest; below size(worker)
    [[nodiscard]] const IterationRecord& record(int worker, std::size_t age) const {
        return row(worker).at(age);
    }
    /// Records ever added, of all workers.
    [[nodiscard]] std::int64_t added() const noexcept { return added_; }

private:
    using Row = std::deque<IterationRecord>;  ///< newest first
    [[nodiscard]] const Row& row(int worker) const {
        return rows_.at(static_cast<std::size_t>(worker));
    }

    std::int64_t batch_;
    std::size_t depth_;
    std::int64_t added_ = 0;
    std::vector<Row> rows_;
};

}  // namespace cohort
