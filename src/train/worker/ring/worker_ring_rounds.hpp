#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/worker/local_steps.hpp"
#include "train/worker/worker_context.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {

/// What `samples` of a round weigh in its mean.
[[nodiscard]] double share(const RoundOrder& order, std::int64_t samples) noexcept;

/// A member's part in the sums of rounds: the exchanges over member lists, by name, and what it
/// computes and submits. Only the computing thread uses it.
class MemberRounds {
public:
    MemberRounds(WorkerContext& context, AllReduceFactory make);

    struct Sum {
        std::vector<RoundSummary> summaries;  ///< by member
        std::span<float> floats;  ///< gradient and statistics; empty: they are the replica's
        AllReduceTimes times;
        bool on_device = false;  ///< `floats` lie in the replica's memory
    };
    /// This worker's part in a round, to its end. @param added gradients of its riders, weighted
    /// Nothing when a member was lost before the round was over here; the sum is undefined then.
    /// Errors: those of exchanges; PeerError when leases do not come in the order of the grants.
    [[nodiscard]] std::optional<Sum> run(const RoundOrder& order, const RoundMember& mine,
                                         const std::vector<AddedPush>& added);
    /// The sums of the last round, of this order, are not used.
    void aborted(const RoundOrder& order);
    /// The next summaries say that no round after theirs begins, up to this one.
    void skip_after_this(std::uint64_t round) noexcept { skip_ = round; }
    /// Exchanges that are not among these are not used again.
    void keep_only(const std::vector<std::uint64_t>& rings);

    /// Floats in a round: parameters, then batch statistics.
    [[nodiscard]] std::int64_t floats() const noexcept { return floats_; }
    /// Working off the last round's update took so long.
    void applied(double seconds) noexcept { load_.apply_s = seconds; }

private:
    [[nodiscard]] std::vector<int> ranks_of(std::span<const RoundMember> members) const;
    [[nodiscard]] AllReduce& exchange(std::uint64_t ring, const std::vector<int>& ranks,
                                      const AllReduceScope& scope);
    [[nodiscard]] Sum alone(const RoundMember& mine, std::uint64_t round);
    [[nodiscard]] RoundSummary train_into(const LoadedBatch& batch, float weight, AllReduce& sum,
                                          std::span<float> buffer,
                                          std::span<const AddedPush> added);
    [[nodiscard]] RoundSummary pass_on(const AllReduce& sum, std::span<float> buffer,
                                       std::span<const AddedPush> added);
    [[nodiscard]] RoundSummary scaled_delta(const RoundSummary& stepped, float weight,
                                            const AllReduce& sum, std::span<float> buffer);
    [[nodiscard]] std::optional<LoadedBatch> batch_of(const RoundMember& mine);
    [[nodiscard]] RoundSummary complete(RoundSummary summary, std::uint64_t round);
    [[nodiscard]] std::uint32_t checksum(std::uint64_t round);
    [[nodiscard]] RoundSummary train(const LoadedBatch& batch, GradientObserver& observer);
    [[nodiscard]] std::optional<RoundSummary> step_locally(const RoundOrder& order,
                                                           const RoundMember& mine,
                                                           const LoadedBatch* batch);
    [[nodiscard]] bool pass_on_steps(const RoundOrder& order, AllReduce& group) const;
    [[nodiscard]] AllReduce* group_of(const RoundOrder& order, const RoundMember& mine);

    WorkerContext& context_;
    TrainableModel& replica_;
    AllReduceFactory make_;
    std::int64_t floats_;
    double input_s_ = 0;      ///< that this round waited for its batch
    std::uint64_t skip_ = 0;  ///< to be said in summaries; rounds up to this one
    RingLoad load_;           ///< of the round before, for the next summary
    struct Exchange {
        std::unique_ptr<AllReduce> sum;
        Work work = Work::kGradient;  ///< of its rounds so far
    };
    std::map<std::uint64_t, Exchange> exchanges_;  ///< by name
    std::unique_ptr<AllReduce> lone_;              ///< for a ring of one with riders or deltas
    std::unique_ptr<LocalSteps> local_;            ///< while rounds sum deltas
    std::vector<float> delta_;                     ///< of the round: parameters, batch statistics
};

}  // namespace cohort
