#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "train/protocol/protocol.hpp"
#include "train/worker/local_steps.hpp"
#include "train/worker/servers/push_buffers.hpp"
#include "train/worker/servers/worker_times.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// The exchanges of a worker's groups (hierarchical SGD). One per generation and member list, so
/// that all members agree on which one a lease is for; the last few are kept.
class GroupExchanges {
public:
    /// A turn in a group's exchange.
    struct Turn {
        AllReduce* exchange = nullptr;  ///< null: the group broke, or there is none
        std::uint64_t round = 0;        ///< first of the rounds
    };

    /// @param floats of the exchanged buffers  @param scope of the exchanges
    GroupExchanges(AllReduceFactory make, std::int64_t floats, AllReduceScope scope = {});

    /// The exchange for a lease with a group; collective over the group. Reserves work.steps
    /// rounds of it.
    [[nodiscard]] Turn turn(const WorkOrder& work);
    /// The exchange for `work` broke: it is not used any more.
    void broke(const WorkOrder& work);

private:
    struct Entry {
        std::uint64_t generation = 0;
        std::vector<std::int32_t> ranks;
        std::unique_ptr<AllReduce> exchange;
        std::uint64_t round = 0;  ///< the next
    };
    [[nodiscard]] std::list<Entry>::iterator find(const WorkOrder& work);

    AllReduceFactory make_;
    std::int64_t floats_;
    AllReduceScope scope_;
    std::list<Entry> entries_;  ///< used last first
};

/// A mini-batch to be computed, and the push that comes of it.
struct PushJob {
    const LoadedBatch& batch;
    const LeaseOrder& order;
    PushId id;
    PushBuffer place;
    std::int64_t version = 0;  ///< of the parameters in use
};

/// Computes mini-batches for parameter servers: a gradient that leaves while backward runs, one in
/// two halves, one that stays in the node's memory, or the delta of some local steps. The report
/// (PushReport) follows. What is computed on a lease that was taken back is given up between two
/// layers; what has begun to leave leaves to its end, and is discarded.
class PushStep {
public:
    /// What is given outlives this. @param rounds makes the exchanges of groups
    PushStep(WorkerContext& context, const ShardedLayout& layout, PushBuffers& places,
             IterationTimes& times, AllReduceFactory rounds);

    /// The worker begins a new incarnation: local steps remember nothing.
    void begin_incarnation();
    void run(const PushJob& job);

private:
    void gradient(const PushJob& job);
    void gradient_of_halves(const PushJob& job);
    void gradient_in_slot(const PushJob& job);
    void delta(const PushJob& job);
    [[nodiscard]] bool give_up(const PushJob& job);
    [[nodiscard]] PushReport report_of(const PushJob& job, const BatchResult& result, bool finite,
                                       double squares);
    void send(const PushReport& report) {
        context_.coordinator().tell(MessageKind::kPushReport, report);
    }

    WorkerContext& context_;
    const ShardedLayout& layout_;
    PushBuffers& places_;
    IterationTimes& times_;
    GroupExchanges groups_;
    std::unique_ptr<LocalSteps> local_;  ///< once there was work for it
    std::vector<float> delta_;           ///< or a gradient, before it leaves
};

}  // namespace cohort
