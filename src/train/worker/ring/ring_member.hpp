#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "train/protocol/protocol_ring.hpp"
#include "train/worker/ring/ring_model.hpp"
#include "train/worker/ring/worker_ring_rounds.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// A worker's part in rounds, as long as it is a member of the ring.
class RingMember {
public:
    RingMember(WorkerContext& context, RingModel& model, AllReduceFactory rounds)
        : context_(context), model_(model), rounds_(context, std::move(rounds)) {}

    /// A granted round, to its end, with the snapshot and the evaluation that follow it. False when
    /// a member was lost before the round was over on this worker.
    [[nodiscard]] bool carry_out(const RoundOrder& order);
    /// All members skip the round.
    [[nodiscard]] bool skips(const RoundOrder& order) const noexcept {
        return order.round <= skip_;
    }
    /// The next summaries say that no round after theirs begins, up to this one; 0: all may.
    void halt(std::uint64_t round) noexcept { rounds_.skip_after_this(round); }

    /// A rider's gradient is received.
    void stage(PushId push, std::shared_ptr<const float> values) {
        staged_[push] = std::move(values);
    }
    /// False when it is not received yet.
    [[nodiscard]] bool discard(PushId push) { return staged_.erase(push) != 0; }

    /// The worker becomes a rider, or gets the state of another member.
    void leave() { model_.set_last_round(0); }
    /// The worker restarts: nothing from before counts.
    void restart();

    /// Grants carried out.
    [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
    /// Floats in a round, see MemberRounds.
    [[nodiscard]] std::int64_t floats() const noexcept { return rounds_.floats(); }

private:
    [[nodiscard]] bool round(const RoundOrder& order);
    [[nodiscard]] std::vector<AddedPush> pushes_of(const RoundOrder& order,
                                                   const RoundMember& mine) const;
    void release_riders(const RoundOrder& order, const RoundMember& mine);
    [[nodiscard]] RoundReport report_of(const RoundOrder& order, const MemberRounds::Sum& sum,
                                        double squares);
    void evaluate(const RoundOrder& order);
    [[nodiscard]] double squares_of(const MemberRounds::Sum& sum) const;

    WorkerContext& context_;
    RingModel& model_;
    MemberRounds rounds_;
    std::map<PushId, std::shared_ptr<const float>> staged_;  ///< of this worker's riders
    std::uint64_t done_ = 0;
    std::uint64_t skip_ = 0;  ///< rounds up to this one do not begin
};

}  // namespace cohort
