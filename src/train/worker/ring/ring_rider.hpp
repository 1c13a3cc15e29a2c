#pragma once

#include <cstdint>
#include <functional>

#include "train/worker/ring/ring_model.hpp"
#include "train/worker/ring/worker_ring_inbox.hpp"
#include "train/worker/ring/worker_ring_rides.hpp"

namespace cohort {

/// A worker's part as a rider: parameters permit it to start one mini-batch, whose gradient leaves
/// for its parent.
class RingRider {
public:
    RingRider(WorkerContext& context, RingModel& model, RingInbox& inbox, std::int64_t floats)
        : context_(context), model_(model), inbox_(inbox), rides_(context, floats) {}

    /// Follows an order about this worker's role. @param was_member  until now: its parameters are
    /// the newest
    void follow(const RoleOrder& order, bool was_member);
    /// The worker restarts: nothing from before counts.
    void restart();

    /// World rank.
    [[nodiscard]] int parent() const;
    [[nodiscard]] bool may_start() const noexcept { return start_permit_; }
    /// A mini-batch, or else parameters, are there.
    [[nodiscard]] bool ready() const;
    /// Starts the next mini-batch, or takes the parameters that permit it.
    void step();
    /// Sequence of the last push that was begun.
    [[nodiscard]] std::uint64_t begun() const noexcept { return rides_.begun(); }

private:
    [[nodiscard]] std::function<bool(const StateHeader&)> permits_start() const;
    void take_parameters();

    WorkerContext& context_;
    RingModel& model_;
    RingInbox& inbox_;
    RingRides rides_;
    int parent_ = 0;                      ///< worker
    bool start_permit_ = false;           ///< the parameters permit to start a mini-batch
    std::uint64_t parameters_epoch_ = 0;  ///< parameters of older epochs do not count
    std::uint64_t held_epoch_ = 0;        ///< of the parameters that the worker holds
};

}  // namespace cohort
