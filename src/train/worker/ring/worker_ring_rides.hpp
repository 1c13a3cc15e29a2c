#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

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

}  // namespace cohort
