#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocol_ring.hpp"
#include "worker_context.hpp"
#include "worker_ring_observer.hpp"
#include "worker_rounds.hpp"

namespace cohort {

/// What `samples` of a round weigh in its mean.
[[nodiscard]] double share(const RoundOrder& order, std::int64_t samples) noexcept;

/// A member's part in the sums of rounds: the exchanges over member lists, by name, and what it
/// computes and hands in. Only the computing thread uses it.
class MemberRounds {
public:
    MemberRounds(WorkerContext& context, RoundExchangeFactory make);

    struct Sum {
        std::vector<RingTail> tails;  ///< by member
        std::span<float> floats;      ///< gradient and statistics; empty: they are the replica's
        RingTimes times;
    };
    /// This worker's part in a round, to its end. @param added gradients of its riders, weighted
    /// Nothing when a member was lost before the round was over here; the sum is undefined then.
    /// Errors: those of exchanges; PeerError when leases do not come in the order of the grants.
    [[nodiscard]] std::optional<Sum> run(const RoundOrder& order, const RoundMember& mine,
                                         const std::vector<AddedPush>& added);
    /// Exchanges that are not among these are not used again.
    void keep_only(const std::vector<std::uint64_t>& rings);

    /// Floats in a round: parameters, then batch statistics.
    [[nodiscard]] std::int64_t floats() const noexcept { return floats_; }

private:
    [[nodiscard]] RoundExchange& exchange(std::uint64_t ring, const std::vector<int>& ranks);
    [[nodiscard]] Sum alone(const RoundMember& mine);
    static void pass_on(std::span<float> buffer, const std::vector<AddedPush>& added);
    [[nodiscard]] std::optional<LoadedBatch> batch_of(const RoundMember& mine);
    [[nodiscard]] RingTail train(const LoadedBatch& batch, GradientObserver& observer);

    WorkerContext& context_;
    Replica& replica_;
    RoundExchangeFactory make_;
    std::int64_t floats_;
    std::map<std::uint64_t, std::unique_ptr<RoundExchange>> exchanges_;  ///< by name
    std::unique_ptr<RoundExchange> lone_;  ///< for a ring of one with riders
};

}  // namespace cohort
