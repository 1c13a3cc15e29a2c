#pragma once

#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "sched/plan/ring_rules.hpp"
#include "sched/session/ring/round.hpp"
#include "train/protocol/protocol.hpp"

// What coordinator and workers say to each other in a run with rings. A member takes part in
// rounds; a rider works at its own pace and gives its gradients to a member, its parent. In steps:
//  1. coordinator -> worker       kRole         member or rider of which parent
//     worker -> coordinator       kRoleTaken    the answer
//  2. coordinator -> members      kRound        who takes part in round r with which lease,
//                                               and which gradients of riders go with it
//  3. members among themselves    the round     comm/allreduce
//  4. first member -> coordinator kRoundDone    its tails
//     rider -> parent             kPush         transfer: gradient and batch statistics
//     rider -> coordinator        kPushReport   what it is worth
//     parent -> coordinator       kPushReceived it holds all of it
//     parent -> rider             kState        transfer: parameters after the round that took it
//     coordinator -> members      kHalt         a plan waits: end this round, begin no other
// and when a member was lost (the last one: all workers are asked):
//  5. coordinator -> members      kRecover      give up the round that cannot end
//     member -> coordinator       kRecovered    the answer
//  6. coordinator -> member       kSendState    bring one that is behind up; also for who enters
namespace cohort {

enum class RingMessageKind : std::uint16_t {
    kRole = static_cast<std::uint16_t>(MessageKind::kRingFirst),
    kRoleTaken,
    kSendState,
    kState,
    kRecover,
    kRecovered,
    kHalt
};

/// A round grant: fixed before its first bucket leaves. The update is applied by every member;
/// a tail that is not finite voids it for all. Without members there is no round, only what is
/// asked for afterwards, and nobody reports it.
struct RoundOrder {
    std::uint64_t epoch = 0;  ///< counts losses; grants of an older one are void
    std::uint64_t round = 0;
    std::uint64_t membership = 0;     ///< epoch of the job's membership they were chosen from
    std::uint64_t ring = 0;           ///< names the exchange over these members
    std::vector<std::uint64_t> keep;  ///< exchanges that may be used again; others can go
    double fraction = 0;
    double lr = 0;
    Work work = Work::kGradient;
    std::int32_t steps = 1;            ///< kDelta: local steps
    std::int32_t group = 1;            ///< kDelta: so many consecutive members average every step
    std::uint64_t group_ring = 0;      ///< names the exchange of the first group; then +1, ...
    std::uint64_t group_round = 0;     ///< first of `steps` rounds of it
    std::vector<RoundMember> members;  ///< in ring order
    std::int32_t reporter = 0;         ///< worker that reports the round and takes the snapshot
    bool ask_norm = false;             ///< the reporter tells that of the mean gradient
    std::uint64_t evaluation = 0;      ///< afterwards; 0: none
    std::vector<std::int32_t> evaluators;  ///< workers: the i-th of n does part i of n
    SnapshotOrder snapshot;                ///< afterwards
    auto fields() {
        return std::tie(epoch, round, membership, ring, keep, fraction, lr, work, steps, group,
                        group_ring, group_round, members, reporter, ask_norm, evaluation,
                        evaluators, snapshot);
    }
};

/// What a member knows of its load when it submits its part of a round.
struct RingLoad {
    double waited_s = -1;   ///< for the end of the round before, after its own part was done; below
                            ///< 0: there was no such round
    double exchange_s = 0;  ///< of that round, from its first bucket that was ready to the end
    double apply_s = 0;     ///< applying its update; on a GPU, queueing that
    double telemetry_s = 0;  ///< measuring the load
    ResourceUse use;
    auto fields() { return std::tie(waited_s, exchange_s, apply_s, telemetry_s, use); }
};

/// What a member says at the end of a round; it travels with the sum, and all members get the
/// summaries of all.
struct RoundSummary {
    std::int64_t samples = 0;
    double loss_sum = 0;
    double correct = 0;
    bool finite = true;    ///< false aborts the round for all members
    double input_s = 0;    ///< waiting for the batch
    double compute_s = 0;  ///< own time, without waiting
    double gradient_norm = 0;
    RingLoad load;
    std::uint32_t checksum = 0;  ///< of a part of its parameters before the round, the same part
                                 ///< for all members
    std::uint64_t skip = 0;  ///< for the members only: rounds after this one up to that number do
                             ///< not begin; 0: all may
    auto fields() {
        return std::tie(samples, loss_sum, correct, finite, input_s, compute_s, gradient_norm, load,
                        checksum);
    }
};

struct RoundReport {
    std::uint64_t round = 0;
    /// The reporter's after the round; an aborted round leaves it unchanged.
    std::int64_t version = 0;
    std::vector<RoundSummary> members;  ///< in the order of the grant
    double exchange_s = 0;              ///< the reporter's
    double exposed_s = 0;
    std::uint64_t skip = 0;  ///< rounds after this one up to that number do not begin; 0: all do
    /// Squared norm of the mean gradient; not a number: it was not asked for, or the member that
    /// was asked is gone.
    double squares = std::numeric_limits<double>::quiet_NaN();
    auto fields() {
        return std::tie(round, version, members, exchange_s, exposed_s, skip, squares);
    }
};

/// Carried out between two mini-batches, in line with the grants.
struct RoleOrder {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;  ///< of this order
    RingRole role = RingRole::kMember;
    std::int32_t parent = 0;   ///< kRider: gets its gradients
    bool afresh = false;       ///< kRider: parameters come; those of older epochs do not count
    bool await_state = false;  ///< kMember: everything that a member holds comes, see StateHeader
    std::int32_t giver = 0;    ///< with `afresh` or `await_state`: the worker it comes from
    /// kMember, after the loss of all members: the ring goes on from the parameters that this
    /// worker holds, which count as `version`; of a state that it awaits only the optimizer's part
    /// counts.
    bool successor = false;
    std::int64_t version = 0;
    std::uint64_t round = 0;  ///< successor: the last one that is settled
    auto fields() {
        return std::tie(epoch, number, role, parent, afresh, await_state, giver, successor, version,
                        round);
    }
};

struct RoleTaken {
    std::int32_t worker = 0;
    std::uint64_t number = 0;    ///< of the order
    std::uint64_t sequence = 0;  ///< of the last push it has begun
    auto fields() { return std::tie(worker, number, sequence); }
};

/// To a member: send what you have after the grants before this order.
struct SendStateOrder {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;  ///< of the role order that awaits it; 0: a rider's next parameters
    std::int32_t worker = 0;   ///< receives it
    bool full = false;         ///< optimizer included
    std::uint64_t after = 0;   ///< rider: sequence of the last push that it has begun
    std::uint32_t incarnation = 0;  ///< rider: its own
    auto fields() { return std::tie(epoch, number, worker, full, after, incarnation); }
};

/// Header of a transfer member -> worker: parameters and state as PulledBytes says, or if `full`
/// all that a member holds, in f32: with the optimizer's slots in their order.
struct StateHeader {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;       ///< as ordered
    std::uint64_t after = 0;        ///< as ordered, or the push that it answers
    std::uint32_t incarnation = 0;  ///< of that push
    std::int64_t version = 0;
    std::uint64_t round = 0;  ///< the last one that went into it
    std::int32_t giver = 0;
    bool full = false;
    std::vector<double> scalars;  ///< of the optimizer, in its order
    bool applied = false;         ///< the push `after` was part of an update
    /// Up to that round, when the giver took part: see Recovered.
    std::vector<RoundReport> reports;
    auto fields() {
        return std::tie(epoch, number, after, incarnation, version, round, giver, full, scalars,
                        applied, reports);
    }
};

/// To the members left when one has been lost, or to all workers when no member is left that can go
/// on. Grants of older epochs are void, but for a round that this member can still complete.
struct RecoverOrder {
    std::uint64_t epoch = 0;
    auto fields() { return std::tie(epoch); }
};

/// The members say so to each other in the tails of the round that is under way, so that all skip
/// the same rounds. Comes too late when nothing is granted after that one.
struct HaltOrder {
    std::uint64_t epoch = 0;
    std::uint64_t round = 0;  ///< the last one granted
    auto fields() { return std::tie(epoch, round); }
};

inline constexpr std::int64_t kNoVersion = -1;

struct Recovered {
    std::uint64_t epoch = 0;
    std::int32_t worker = 0;
    std::uint64_t round = 0;   ///< the last one that is part of its parameters, or was void
    std::int64_t version = 0;  ///< kNoVersion: this worker has been away
    /// Of the last rounds that are part of its parameters, or were void, oldest first: those of
    /// which the coordinator may not have heard. Empty for one that did not take part; a rider's
    /// come with its parameters.
    std::vector<RoundReport> reports;
    std::uint64_t parameters_round = 0;  ///< the last one that is part of its parameters, which may
                                         ///< be all that it holds
    std::int64_t optimizer_version = 0;  ///< of the optimizer's state: its own, a member's or of
                                         ///< when it was one
    auto fields() {
        return std::tie(epoch, worker, round, version, reports, parameters_round,
                        optimizer_version);
    }
};

}  // namespace cohort
