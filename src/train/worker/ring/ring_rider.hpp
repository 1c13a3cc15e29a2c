#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "train/worker/ring/ring_model.hpp"
#include "train/worker/ring/worker_ring_inbox.hpp"
#include "train/worker/servers/push_buffers.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// A worker's part as a rider: parameters permit it to start one mini-batch, whose gradient leaves
/// for its parent; a report says what the gradient is worth. Only the computing thread uses it.
class RingRider {
public:
    RingRider(WorkerContext& context, RingModel& model, RingInbox& inbox)
        : context_(context),
          model_(model),
          inbox_(inbox),
          layout_(cut_shards(context.replica().graph(), 1)),
          out_(context.job().options.wire, layout_, context.replica().device()) {}

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
    /// Takes those that permit to start, if they are here; of those that come later only ones of
    /// this epoch on count.
    void take_last_parameters(std::uint64_t epoch);
    /// Sequence of the last push that was begun.
    [[nodiscard]] std::uint64_t begun() const noexcept { return begun_; }

private:
    /// Pushes on their way, and what their rounding left.
    struct Pushes {
        Pushes(Wire type, const ShardedLayout& layout, Device& device)
            : wire(type), buffers(layout, device, 0, type), feedback(layout.floats()) {}
        Wire wire;
        /// Several only after transfers to a lost parent, which may never end.
        SendBuffers buffers;
        ErrorFeedback feedback;
    };
    [[nodiscard]] std::function<bool(const StateHeader&)> permits_start() const;
    void take_parameters();
    [[nodiscard]] PushRoute route() const;
    [[nodiscard]] PushWriter writer(const Buffer& buffer, const PushId& push);
    /// The mini-batch of the oldest lease. False: kStop came, or the lease had come back.
    [[nodiscard]] bool train();
    /// The step's part of the report on `push`.
    [[nodiscard]] PushReport gradient(const LoadedBatch& batch, const PushId& push);
    [[nodiscard]] PushReport gradient_of_halves(const LoadedBatch& batch, const PushId& push);

    WorkerContext& context_;
    RingModel& model_;
    RingInbox& inbox_;
    ShardedLayout layout_;  ///< of one shard
    Pushes out_;
    std::int32_t parent_ = 0;             ///< worker
    bool start_permit_ = false;           ///< the parameters permit to start a mini-batch
    std::uint64_t parameters_epoch_ = 0;  ///< parameters of older epochs do not count
    std::uint64_t held_epoch_ = 0;        ///< of the parameters that the worker holds
    std::uint64_t begun_ = 0;
    std::optional<Clock::Seconds> told_;  ///< when the last push had been reported
    WorkerTimes times_;
};

}  // namespace cohort
