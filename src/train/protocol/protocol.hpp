#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/core/resource_use.hpp"
#include "cohort/sched/plan.hpp"
#include "core/bytes.hpp"
#include "sched/run/gradient_desk.hpp"

// What coordinator, servers and workers say to each other. A run with servers, numbered:
//  1. coordinator -> all           kBegin         where parameters come from; from then on leases
//  2. coordinator -> worker        kLease         ahead of their use, so that batches are ready
//  3. server -> worker             kParameters    transfer: a shard's parameters of version V
//  4. worker -> server             kPush          transfer: gradient, leaves while backward runs
//     worker -> coordinator        kTicket        what it is worth
//     server -> coordinator        kStaged        the shard holds all of it
//  5. coordinator -> server        kFire          sum these, update, release; then 3 again
//                                  kDiscard       forget these
//                                  kReference     keep this one to compare others with
//     coordinator -> worker        kRevoke        give up leases, and what is computed on them
//                                  kJoin          begin anew: you were lost
// and with rings (protocol_ring.hpp):
//  3. coordinator -> worker        kRound         who takes part in round r with which lease
//  4. workers among themselves     the round      comm/ring_exchange
//  5. worker 0 -> coordinator      kRoundDone     its tails
// Both: kEvaluated, kSaved, kGathered answer what a fire or round asked for, kEvaluating says that
// an answer is being worked on; kStop ends the work, kFarewell answers it.
namespace cohort {

enum class MessageKind : std::uint16_t {
    kBegin = 1,
    kLease,
    kParameters,
    kPush,
    kTicket,
    kStaged,
    kFire,
    kDiscard,
    kRound,
    kRoundDone,
    kEvaluating,
    kEvaluated,
    kSaved,
    kGathered,
    kStopRequested,
    kStop,
    kFarewell,
    kReference,
    kSummed,
    kRevoke,
    kJoin,
    kRankEvent,       ///< of this rank's communication thread, to its own coordinator
    kRingFirst = 64,  ///< protocol_ring.hpp
    kNodeFirst = 96   ///< protocol_node.hpp
};

struct BeginOrder {
    std::string checkpoint;  ///< manifest to restore from; empty: initial parameters from the seed
    std::int64_t version = 0;  ///< of those parameters
    template <class Io>
    void fields(Io& io) {
        io(checkpoint, version);
    }
};

/// What to do with a lease.
struct WorkOrder {
    Work work = Work::kGradient;
    std::int32_t steps = 1;           ///< kDelta: local steps that the lease is cut into
    double lr = 0;                    ///< kDelta: of the local steps
    std::vector<std::int32_t> group;  ///< world ranks that average gradients at every local step,
                                      ///< this one included; empty: nobody
    std::uint64_t generation = 0;  ///< of the group: its members share an exchange per generation
    template <class Io>
    void fields(Io& io) {
        io(work, steps, lr, group, generation);
    }
};

/// A lease as a slice of an epoch's order; the worker knows the order.
struct LeaseOrder {
    std::uint64_t lease = 0;
    std::uint32_t epoch = 0;
    std::int64_t position = 0;
    std::int64_t count = 0;
    WorkOrder work;
    bool validation = false;  ///< its gradient is compared with, not applied: see kReference
    bool staged = false;      ///< its payload stays in memory of the node, see protocol_node.hpp
    bool halves = false;      ///< a gradient is computed as two halves, see GradientDesk
    template <class Io>
    void fields(Io& io) {
        io(lease, epoch, position, count, work, validation, staged, halves);
    }
};

/// Leases that have come back. Batches of them are skipped; a mini-batch that is being computed on
/// one of them is given up between two layers. When the worker's parameters are older than
/// `version` it waits for new ones, which are on their way; else it starts its next lease at once.
struct RevokeOrder {
    std::vector<std::uint64_t> leases;
    std::uint64_t up_to = 0;  ///< and all with this number or a lower one
    std::int64_t version = 0;
    template <class Io>
    void fields(Io& io) {
        io(leases, up_to, version);
    }
};

/// To a worker that was lost: it gives everything up, its pushes count from 1 under the new
/// incarnation, and it goes on with parameters for that incarnation, which are on their way.
struct JoinOrder {
    std::uint32_t incarnation = 0;
    std::int64_t version = 0;        ///< of those parameters
    std::uint64_t leases_up_to = 0;  ///< as RevokeOrder::up_to
    template <class Io>
    void fields(Io& io) {
        io(incarnation, version, leases_up_to);
    }
};

/// What Membership tells the coordinator.
struct RankNews {
    std::int32_t rank = 0;
    bool returned = false;
    bool dead = false;
    std::string reason;
    template <class Io>
    void fields(Io& io) {
        io(rank, returned, dead, reason);
    }
};

/// A part of the test group to evaluate with the parameters of one version.
struct EvaluationOrder {
    std::uint64_t id = 0;  ///< 0: none
    std::int32_t part = 0;
    std::int32_t parts = 0;
    template <class Io>
    void fields(Io& io) {
        io(id, part, parts);
    }
};

/// What an update is asked to leave behind, besides new parameters.
struct SnapshotOrder {
    std::string checkpoint;    ///< manifest path; shards write theirs beside it; empty: none
    std::uint64_t gather = 0;  ///< id: send parameters and state to the coordinator; 0: none
    [[nodiscard]] bool empty() const noexcept { return checkpoint.empty() && gather == 0; }
    template <class Io>
    void fields(Io& io) {
        io(checkpoint, gather);
    }
};

/// Header of a transfer server -> worker: the shard's parameters, then, from server 0, the state.
struct ParametersHeader {
    std::int64_t version = 0;
    std::int32_t server = 0;
    EvaluationOrder evaluation;
    std::uint32_t incarnation = 0;  ///< of the worker that they are for, see JoinOrder
    template <class Io>
    void fields(Io& io) {
        io(version, server, evaluation, incarnation);
    }
};

/// Header of a transfer worker -> server: the gradient of the shard's range (mean over the batch,
/// not weighted), then, to server 0, the batch statistics; it leaves backwards.
struct PushHeader {
    PushId push;
    template <class Io>
    void fields(Io& io) {
        io(push);
    }
};

/// Where a worker's time went since its last push.
struct WorkerTimes {
    double input_s = 0;      ///< waiting for the batch
    double compute_s = 0;    ///< forward and backward, injected slowness included
    double exchange_s = 0;   ///< from the end of backward until new parameters were there
    double pull_s = 0;       ///< of it: since the first of them was announced
    double leaving_s = 0;    ///< of compute_s: since the first of the gradient was there to leave
    double lease_s = 0;      ///< waiting for a lease, before the batch
    double buffer_s = 0;     ///< waiting for memory for the push: those before still leave
    double telemetry_s = 0;  ///< finding out about the load
    ResourceUse use;
    template <class Io>
    void fields(Io& io) {
        io(input_s, compute_s, exchange_s, pull_s, leaving_s, lease_s, buffer_s, telemetry_s, use);
    }
};

struct Ticket {
    PushId push;
    std::uint64_t lease = 0;
    std::int64_t version = 0;
    std::int64_t samples = 0;
    double loss_sum = 0;
    std::int64_t correct = 0;
    bool finite = true;
    double gradient_norm = 0;
    WorkerTimes times;
    Work work = Work::kGradient;
    bool given_up = false;    ///< interrupted after its payload had begun to leave: to be discarded
    bool validation = false;  ///< of a validation lease
    std::int32_t slot = -1;   ///< >= 0: the payload lies in memory of the node (protocol_node.hpp)
    bool halves = false;      ///< as the lease asked; then |g|^2 of each:
    double first_squares = 0;
    double second_squares = 0;
    template <class Io>
    void fields(Io& io) {
        io(push, lease, version, samples, loss_sum, correct, finite, gradient_norm, times, work,
           given_up, validation, slot, halves, first_squares, second_squares);
    }
};

struct Staged {
    PushId push;
    std::int32_t server = 0;
    double reference_dot = 0;      ///< of this shard's part with its part of the reference
    double reference_squares = 0;  ///< sum of squares of the reference's part; 0: there is none
    template <class Io>
    void fields(Io& io) {
        io(push, server, reference_dot, reference_squares);
    }
};

/// What a shard's part of an update's mean gradient says, when FireOrder asks.
struct Summed {
    std::int64_t version = 0;
    std::int32_t server = 0;
    GradientAnswer answer;
    template <class Io>
    void fields(Io& io) {
        io(version, server, answer);
    }
};

struct WeightedPush {
    PushId push;
    double coefficient = 0;    ///< b_p w_p / sum of b
    std::int64_t version = 0;  ///< that it was computed on, for the delay compensation
    template <class Io>
    void fields(Io& io) {
        io(push, coefficient, version);
    }
};

struct ReleaseOrder {
    std::int32_t worker = 0;
    double lag = 0;  ///< look-ahead in reference batches; 0: plain parameters
    EvaluationOrder evaluation;
    std::uint32_t incarnation = 0;  ///< of the worker
    template <class Io>
    void fields(Io& io) {
        io(worker, lag, evaluation, incarnation);
    }
};

/// An update, or without pushes only releases and snapshots of the current version.
struct FireOrder {
    std::int64_t version = 0;  ///< after it
    double fraction = 0;
    double lr = 0;
    Work work = Work::kGradient;
    double delay_compensation = 0;     ///< lambda
    GradientQuestion question;         ///< answered with kSummed
    std::vector<WeightedPush> pushes;  ///< in the order in which they are summed
    std::vector<ReleaseOrder> releases;
    SnapshotOrder snapshot;
    template <class Io>
    void fields(Io& io) {
        io(version, fraction, lr, work, delay_compensation, question, pushes, releases, snapshot);
    }
};

/// A staged push becomes what others are compared with, in place of the one before.
struct ReferenceOrder {
    PushId push;
    template <class Io>
    void fields(Io& io) {
        io(push);
    }
};

struct DiscardOrder {
    std::vector<PushId> pushes;
    template <class Io>
    void fields(Io& io) {
        io(pushes);
    }
};

/// An evaluation goes on; at most once a second.
struct EvaluationProgress {
    std::uint64_t id = 0;
    std::int32_t part = 0;
    std::int64_t done = 0;     ///< of the part's samples
    std::int64_t samples = 0;  ///< of the part
    template <class Io>
    void fields(Io& io) {
        io(id, part, done, samples);
    }
};

struct EvaluatedPart {
    std::uint64_t id = 0;
    std::int32_t part = 0;
    double loss_sum = 0;
    std::int64_t correct = 0;
    std::int64_t samples = 0;
    double seconds = 0;
    template <class Io>
    void fields(Io& io) {
        io(id, part, loss_sum, correct, samples, seconds);
    }
};

/// A shard (or, with rings, worker 0 for all) has written its part of a checkpoint.
struct SavedPart {
    std::string checkpoint;  ///< manifest path of the order
    std::int32_t part = 0;
    std::string file;   ///< name beside the manifest
    std::string error;  ///< empty: saved
    double pause_s = 0;
    double write_s = 0;
    template <class Io>
    void fields(Io& io) {
        io(checkpoint, part, file, error, pause_s, write_s);
    }
};

/// Header of a transfer to the coordinator: a shard's parameters, then, from part 0, the state.
struct GatheredHeader {
    std::uint64_t gather = 0;
    std::int64_t version = 0;
    std::int32_t part = 0;
    template <class Io>
    void fields(Io& io) {
        io(gather, version, part);
    }
};

/// A rank was asked to stop, by a signal, or cannot go on.
struct StopRequest {
    std::int32_t rank = 0;
    std::string failure;  ///< of its device: the run ends with it; empty: a signal
    template <class Io>
    void fields(Io& io) {
        io(rank, failure);
    }
};

/// A role's last words.
struct Farewell {
    double cpu_s = 0;  ///< of the process, all threads
    std::uint64_t peak_bytes = 0;
    std::uint64_t arena_bytes = 0;     ///< workers
    std::uint64_t staging_bytes = 0;   ///< servers: most memory for pushes at any time
    std::uint64_t snapshot_bytes = 0;  ///< servers: the same for parameters on their way out
    std::uint64_t bytes_sent = 0;      ///< of the rank
    std::uint64_t bytes_received = 0;
    double comm_cpu_s = 0;  ///< of the communication thread
    template <class Io>
    void fields(Io& io) {
        io(cpu_s, peak_bytes, arena_bytes, staging_bytes, snapshot_bytes, bytes_sent,
           bytes_received, comm_cpu_s);
    }
};

struct Empty {
    template <class Io>
    void fields(Io& io) {
        io();
    }
};

}  // namespace cohort
