#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cohort/model/trainable_model.hpp"
#include "cohort/optim/optimizer.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/server/server_checkpoints.hpp"
#include "train/worker/ring/worker_ring_inbox.hpp"
#include "train/worker/ring/worker_ring_rounds.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// The model that a worker of a ring holds: parameters, state and optimizer. Only the computing
/// thread changes it.
class RingModel {
public:
    explicit RingModel(WorkerContext& context);

    /// From the seed or a checkpoint.
    void begin(const BeginOrder& order);
    [[nodiscard]] bool begun() const noexcept { return begun_; }
    [[nodiscard]] std::int64_t version() const noexcept { return version_; }
    /// The last round that was over on this worker, aborted ones too; 0: not all of what a member
    /// holds is held.
    [[nodiscard]] std::uint64_t last_round() const noexcept { return last_round_; }
    void set_last_round(std::uint64_t round) noexcept { last_round_ = round; }

    /// How parameters for riders travel.
    [[nodiscard]] PulledBytes pulled() const;
    /// Shortens a round's mean gradient as the options say; the same bits on all members.
    void clip(const MemberRounds::Sum& sum);
    /// The update of a round.
    void apply(const RoundOrder& order, const MemberRounds::Sum& sum);
    /// For a gathering or a checkpoint.
    void snapshot(const SnapshotOrder& order);
    /// To another worker. @param lr, lag  of a rider whose parameters look ahead; 0: they do not
    void send(StateHeader header, int worker, double lr, double lag);
    /// Parameters, or everything that a member holds when the header says so.
    void take(const ReceivedState& state);

private:
    void add_delta(std::span<const float> delta);

    WorkerContext& context_;
    TrainableModel& replica_;
    std::unique_ptr<Optimizer> optimizer_;
    bool begun_ = false;
    std::int64_t version_ = 0;
    std::uint64_t last_round_ = 0;
    ShardWriter writer_;
};

}  // namespace cohort
