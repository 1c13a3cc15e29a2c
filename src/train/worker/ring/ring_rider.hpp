#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/worker/ring/ring_model.hpp"
#include "train/worker/ring/worker_ring_inbox.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// A rider's mini-batches: each a gradient that leaves for the parent and a ticket that says what
/// it is worth. Only the computing thread uses it.
class RingRides {
public:
    /// @param floats  parameters and batch statistics
    RingRides(WorkerContext& context, std::int64_t floats)
        : context_(context), floats_(static_cast<std::size_t>(floats)) {}

    /// The mini-batch of the oldest lease on the replica's parameters, which are of `version`.
    /// @param parent world rank. False: kStop came, or the lease had come back.
    [[nodiscard]] bool run(int parent, std::int64_t version);
    /// Sequence of the last push that was begun.
    [[nodiscard]] std::uint64_t begun() const noexcept { return begun_; }
    /// The next push is the first of a new incarnation.
    void restart() noexcept {
        begun_ = 0;
        told_.reset();
    }
    /// Parameters have come. @param seconds  since they were announced
    void pulled(double seconds);

private:
    struct Slot {
        std::shared_ptr<std::vector<float>> values;
        std::shared_ptr<OutgoingTransfer> transfer;  ///< the last one out of it
    };
    [[nodiscard]] Slot& free_slot();
    /// A step's part of the ticket.
    [[nodiscard]] Ticket step(const LoadedBatch& batch, const PushId& id, Address parent);
    [[nodiscard]] Ticket step_in_halves(const LoadedBatch& batch, const PushId& id, Address parent);

    WorkerContext& context_;
    std::size_t floats_;
    std::vector<Slot> slots_;
    std::uint64_t begun_ = 0;
    std::optional<Clock::Seconds> told_;  ///< the last push, when it had been computed
    WorkerTimes times_;
};

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
