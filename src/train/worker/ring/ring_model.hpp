#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

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
    /// The job has gone on without this worker, perhaps from parameters of before these.
    void set_outdated() noexcept {
        outdated_ = true;
        optimizer_version_ = kNoVersion;
        reports_.clear();
    }
    /// Version of the parameters with which a ring can go on, else kNoVersion.
    [[nodiscard]] std::int64_t usable_version() const noexcept {
        return outdated_ ? kNoVersion : version_;
    }
    /// The last round that was over on this worker, aborted ones too; 0: not all of what a member
    /// holds is held.
    [[nodiscard]] std::uint64_t last_round() const noexcept { return last_round_; }
    void set_last_round(std::uint64_t round) noexcept { last_round_ = round; }
    void round_over(std::uint64_t round) noexcept { last_round_ = parameters_round_ = round; }
    /// Of the last round; goes with its parameters wherever they are sent.
    void add_report(RoundReport report);
    /// Of the last rounds, oldest first: as many as may be granted at a time.
    [[nodiscard]] const std::vector<RoundReport>& reports() const noexcept { return reports_; }
    /// The last round that is part of the parameters.
    [[nodiscard]] std::uint64_t parameters_round() const noexcept { return parameters_round_; }
    /// Version that the optimizer's state belongs to.
    [[nodiscard]] std::int64_t optimizer_version() const noexcept { return optimizer_version_; }

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
    /// The ring goes on from this worker's parameters. @param state  whose optimizer's part counts;
    /// null: its own does
    void succeed(const RoleOrder& order, const ReceivedState* state);

private:
    void add_delta(std::span<const float> delta);

    WorkerContext& context_;
    TrainableModel& replica_;
    std::unique_ptr<Optimizer> optimizer_;
    bool begun_ = false;
    bool outdated_ = false;
    std::int64_t version_ = 0;
    std::uint64_t last_round_ = 0;
    std::uint64_t parameters_round_ = 0;
    std::int64_t optimizer_version_ = 0;
    std::vector<RoundReport> reports_;  ///< of the last rounds, when their numbers are known here
    ShardWriter writer_;
};

}  // namespace cohort
