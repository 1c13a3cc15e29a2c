#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/core/resource_use.hpp"
#include "cohort/sched/plan.hpp"
#include "core/bytes.hpp"
#include "sched/session/lease_order.hpp"
#include "sched/session/update_order.hpp"
#include "train/protocol/push_outcomes.hpp"
#include "train/protocol/shards.hpp"

// The messages between coordinator, servers and workers. A run with servers, in numbered steps:
//  1. coordinator -> all           kBegin         origin of the parameters; leases may follow
//  2. coordinator -> worker        kLease         ahead of their use, so that batches are ready
//  3. server -> worker             kParameters    transfer: a shard's parameters of version V
//  4. worker -> server             kPush          transfer: gradient, leaves while backward runs
//     worker -> coordinator        kPushReport    lease, version, samples, loss of the push
//     server -> coordinator        kPushReceived  the shard holds the whole payload
//  5. coordinator -> server        kFire          sum these pushes, update, release; then 3 again
//                                  kDiscard       forget these pushes
//                                  kReference     keep this push to compare others with
//     coordinator -> worker        kRevoke        give up leases and mini-batches on them
//                                  kJoin          join again after a loss
// Shards change their owners at a fence, when no worker has a lease:
//  6. coordinator -> servers       kReshard       in line with updates
//     server -> server             kShardPart     transfer: parameters and optimizer state
//     server -> coordinator        kResharded     it has all that it owns now
//     coordinator -> workers       kReshard       before their next leases
// and with rings (protocol_ring.hpp):
//  3. coordinator -> worker        kRound         members of round r and their leases
//  4. workers among themselves     the round      comm/allreduce
//  5. worker 0 -> coordinator      kRoundDone     tails of the round
// Both: kEvaluated, kSaved, kGathered answer the requests of a fire or round, kEvaluating reports
// progress of such an answer; kStop ends the work, kFarewell is the final report.
namespace cohort {

enum class MessageKind : std::uint16_t {
    kBegin = 1,
    kLease,
    kParameters,
    kPush,
    kPushReport,
    kPushReceived,
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
    kGradientStats,
    kRevoke,
    kJoin,
    kRankEvent,  ///< from this rank's communication thread to its own coordinator
    kReshard,
    kShardPart,
    kResharded,
    kRingFirst = 64,  ///< protocol_ring.hpp
    kNodeFirst = 96   ///< protocol_node.hpp
};

struct BeginOrder {
    std::string checkpoint;  ///< manifest to restore from; empty: initial parameters from the seed
    std::int64_t version = 0;  ///< of those parameters
    auto fields() { return std::tie(checkpoint, version); }
};

/// Leases that were returned. The worker skips their batches and gives up a mini-batch on one of
/// them between two layers. When the worker's parameters are older than `version`, it waits for new
/// parameters, which are in flight; else it starts its next lease at once.
struct RevokeOrder {
    std::vector<std::uint64_t> leases;
    std::uint64_t up_to = 0;  ///< also all leases with this number or a lower one
    std::int64_t version = 0;
    auto fields() { return std::tie(leases, up_to, version); }
};

/// To a worker that was lost: it gives up all its leases, its pushes count from 1 under the new
/// incarnation, and it continues with parameters for that incarnation, which are in flight.
struct JoinOrder {
    std::uint32_t incarnation = 0;
    std::int64_t version = 0;        ///< of those parameters
    std::uint64_t leases_up_to = 0;  ///< as RevokeOrder::up_to
    ShardLayout layout;              ///< with servers: of its pushes
    auto fields() { return std::tie(incarnation, version, leases_up_to, layout); }
};

/// News from Membership to the coordinator.
struct RankNews {
    std::int32_t rank = 0;
    bool returned = false;
    bool dead = false;
    std::string reason;
    auto fields() { return std::tie(rank, returned, dead, reason); }
};

/// A part of the test group to evaluate with the parameters of one version.
struct EvaluationOrder {
    std::uint64_t id = 0;  ///< 0: none
    std::int32_t part = 0;
    std::int32_t parts = 0;
    auto fields() { return std::tie(id, part, parts); }
};

/// Snapshots requested of an update.
struct SnapshotOrder {
    std::string checkpoint;  ///< manifest path; shards write their files beside it; empty: none
    std::uint64_t gather =
        0;  ///< id under which parameters and state are sent to the coordinator; 0: none
    [[nodiscard]] bool empty() const noexcept { return checkpoint.empty() && gather == 0; }
    auto fields() { return std::tie(checkpoint, gather); }
};

/// How parameters come to a worker.
enum class ParametersWay : std::uint8_t {
    kStraight,  ///< from the servers
    kPassedOn,  ///< from other workers (protocol_node.hpp): the first ones of their version
    kAgain      ///< from the servers, in place of those passed on: of their version or newer
};

/// Header of a transfer server -> worker: the shard's parameters, then, from the last server, the
/// state; or a piece of them.
struct ParametersHeader {
    std::int64_t version = 0;
    std::int32_t server = 0;
    EvaluationOrder evaluation;
    std::uint32_t incarnation = 0;  ///< incarnation of the receiving worker, see JoinOrder
    std::int64_t begin = 0;         ///< of the shard, or the piece
    std::int64_t end = 0;
    ParametersWay way = ParametersWay::kStraight;
    std::int32_t piece = 0;  ///< the last one has the state
    std::int32_t pieces = 1;
    PushOutcomes outcomes = {};  ///< of the receiving worker
    auto fields() {
        return std::tie(version, server, evaluation, incarnation, begin, end, way, piece, pieces,
                        outcomes);
    }
};

/// Header of a transfer worker -> server: the gradient of the shard's range (mean over the batch,
/// not weighted), then, to the last server, the batch statistics; sent from its end to its begin.
struct PushHeader {
    PushId push;
    std::uint32_t layout = 0;  ///< that it is cut by; servers discard what is cut by another one
    auto fields() { return std::tie(push, layout); }
};

/// A worker's times since its last push.
struct WorkerTimes {
    double input_s = 0;      ///< waiting for the batch
    double compute_s = 0;    ///< forward and backward, injected slowness included
    double exchange_s = 0;   ///< from the end of backward until new parameters were received
    double pull_s = 0;       ///< part of exchange_s: since the first parameters were announced
    double leaving_s = 0;    ///< part of compute_s: since the first part of the gradient was ready
    double lease_s = 0;      ///< waiting for a lease, before the batch
    double buffer_s = 0;     ///< waiting for memory for the push while earlier pushes are sent
    double telemetry_s = 0;  ///< measuring the load
    ResourceUse use;
    auto fields() {
        return std::tie(input_s, compute_s, exchange_s, pull_s, leaving_s, lease_s, buffer_s,
                        telemetry_s, use);
    }
};

/// A push, and how it came about.
struct PushReport {
    PushTicket ticket;  ///< without the products with the reference
    WorkerTimes times = {};
    bool given_up = false;    ///< interrupted while its payload was sent: to be discarded
    bool validation = false;  ///< computed on a validation lease
    std::int32_t slot = -1;   ///< >= 0: the payload lies in memory of the node (protocol_node.hpp)
    bool halves = false;      ///< computed as two halves, with |g|^2 of each:
    double first_squares = 0;
    double second_squares = 0;
    std::uint32_t layout = 0;  ///< that its payload is cut by
    auto fields() {
        return std::tie(ticket, times, given_up, validation, slot, halves, first_squares,
                        second_squares, layout);
    }
};

struct PushReceived {
    PushId push;
    std::int32_t server = 0;
    double reference_dot = 0;  ///< product of the push's part in this shard with the reference's
    double reference_squares = 0;  ///< sum of squares of the reference's part; 0: no reference
    double busy_s = 0;  ///< seconds that the server was busy with transfers and updates so far
    auto fields() { return std::tie(push, server, reference_dot, reference_squares, busy_s); }
};

/// Header of a transfer server -> server: parameters [begin, end), then each of the optimizer's
/// slots for them.
struct ShardPartHeader {
    std::uint32_t layout = 0;  ///< in which the receiver owns them
    std::int32_t server = 0;   ///< the sender
    std::int64_t begin = 0;
    std::int64_t end = 0;
    auto fields() { return std::tie(layout, server, begin, end); }
};

/// A server owns its part of a layout.
struct ReshardedNote {
    std::uint32_t layout = 0;
    std::int32_t server = 0;
    auto fields() { return std::tie(layout, server); }
};

/// Squared norm of a shard's part of an update's mean gradient, when FireOrder asks for it.
struct GradientStatsReply {
    std::int64_t version = 0;
    std::int32_t server = 0;
    double squares = 0;
    auto fields() { return std::tie(version, server, squares); }
};

struct ReleaseOrder {
    std::int32_t worker = 0;
    double lag = 0;  ///< look-ahead in reference batches; 0: plain parameters
    EvaluationOrder evaluation;
    std::uint32_t incarnation = 0;  ///< incarnation of the worker
    std::int64_t again = -1;        ///< >= 0: sent as this version, see ParametersWay::kAgain
    PushOutcomes outcomes = {};     ///< of the worker
    auto fields() { return std::tie(worker, lag, evaluation, incarnation, again, outcomes); }
};

/// A node that parameters pass on their way down a push tree.
struct ParametersStop {
    std::int32_t rank = 0;   ///< of the worker that passes them on
    std::int32_t from = -1;  ///< stop that it gets them from, before it in a list; -1: the servers
    double lag = 0;          ///< as ReleaseOrder::lag, the same for all below
    std::vector<ReleaseOrder> releases;  ///< workers of the node
    auto fields() { return std::tie(rank, from, lag, releases); }
};

/// An update, and what follows from it; without terms, only releases and snapshots of the current
/// version.
struct FireOrder {
    UpdateOrder update = {};
    std::vector<ReleaseOrder> releases = {};
    SnapshotOrder snapshot = {};
    std::vector<ParametersStop> stops = {};  ///< more releases, of an update
    std::int32_t pieces = 1;                 ///< of a shard's parameters on their way over stops
    auto fields() { return std::tie(update, releases, snapshot, stops, pieces); }
};

/// A staged push becomes the reference, in place of the previous one.
struct ReferenceOrder {
    PushId push;
    auto fields() { return std::tie(push); }
};

struct DiscardOrder {
    std::vector<PushId> pushes;
    auto fields() { return std::tie(pushes); }
};

/// Progress of an evaluation; sent at most once a second.
struct EvaluationProgress {
    std::uint64_t id = 0;
    std::int32_t part = 0;
    std::int64_t done = 0;     ///< samples evaluated
    std::int64_t samples = 0;  ///< samples of the rank's part
    auto fields() { return std::tie(id, part, done, samples); }
};

struct EvaluatedPart {
    std::uint64_t id = 0;
    std::int32_t part = 0;
    double loss_sum = 0;
    double correct = 0;
    std::int64_t samples = 0;
    double seconds = 0;
    auto fields() { return std::tie(id, part, loss_sum, correct, samples, seconds); }
};

/// A shard (or, with rings, worker 0 for all) has written its part of a checkpoint.
struct SavedPart {
    std::string checkpoint;  ///< manifest path of the order
    std::int32_t part = 0;
    std::string file;   ///< name beside the manifest
    std::string error;  ///< empty: saved
    double pause_s = 0;
    double write_s = 0;
    auto fields() { return std::tie(checkpoint, part, file, error, pause_s, write_s); }
};

/// Header of a transfer to the coordinator: a shard's parameters, then, from the last part, the
/// state.
struct GatheredHeader {
    std::uint64_t gather = 0;
    std::int64_t version = 0;
    std::int32_t part = 0;
    auto fields() { return std::tie(gather, version, part); }
};

/// A rank was asked to stop, by a signal, or cannot go on.
struct StopRequest {
    std::int32_t rank = 0;
    std::string
        failure;  ///< failure of the rank's device, with which the run ends; empty: a signal
    auto fields() { return std::tie(rank, failure); }
};

/// A role's final report.
struct Farewell {
    double cpu_s = 0;  ///< CPU time of the process, all threads
    std::uint64_t peak_bytes = 0;
    std::uint64_t arena_bytes = 0;     ///< workers
    std::uint64_t staging_bytes = 0;   ///< servers: peak memory for pushes
    std::uint64_t snapshot_bytes = 0;  ///< servers: peak memory for parameters being sent
    std::uint64_t bytes_sent = 0;      ///< by the rank
    std::uint64_t bytes_received = 0;
    double comm_cpu_s = 0;  ///< CPU time of the communication thread
    auto fields() {
        return std::tie(cpu_s, peak_bytes, arena_bytes, staging_bytes, snapshot_bytes, bytes_sent,
                        bytes_received, comm_cpu_s);
    }
};

struct Empty {
    auto fields() { return std::tie(); }
};

}  // namespace cohort
