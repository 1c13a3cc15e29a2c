#include "comm/allreduce/own/shared_progress.hpp"

namespace cohort {
namespace {

/// Blocks that a communication thread does before it looks at other things.
constexpr int kBlocksPerPoll = 8;
/// How long a communication thread keeps looking after a message has moved.
constexpr std::chrono::microseconds kMemoryPolling{100};

}  // namespace

SharedProgress::SharedProgress(SharedRound& round, AllReduceAlgorithm algorithm) : round_(round) {
    if (round_.groups.count() < 2) {
        return;
    }
    const bool leader = round_.node.shape().self == 0;
    if (algorithm == AllReduceAlgorithm::kOrdered) {
        buckets_ = make_ordered_pairs(round_);
    } else if (leader) {
        buckets_ = make_leader_ring(round_);
    }
    if (leader) {
        summaries_ = make_inter_node_summaries(round_);
    }
}

bool SharedProgress::poll() {
    const std::uint64_t submitted = round_.submitted.load();  // before that round is looked at
    const std::uint64_t ordinal = round_.ordinal.load();
    if (ordinal == 0 || round_.broken.load()) {
        return false;
    }
    bool moved = round_.paced.load() && arrive_in_time();
    moved = (summaries_ != nullptr && summaries_->advance(ordinal, 0)) || moved;
    if (buckets_ != nullptr) {
        moved = buckets_->advance(ordinal, round_.arrived.load()) || moved;
    }
    if (!round_.driving.load() || buckets_ != nullptr) {
        moved = round_.node.work(cursor_, ordinal, kBlocksPerPoll) || moved;
    }
    if (messages_ended()) {
        quiet_.store(submitted);
    }
    return look_again(moved) || moved;
}

bool SharedProgress::moving() const {
    return !round_.broken.load() && buckets_ != nullptr && !buckets_->quiet();
}

void SharedProgress::members_changed() {
    if (!round_.broken.load() && round_.setting.lost_member()) {
        round_.broken.store(true);
        round_.node.progress().ring_bell();
    }
}

bool SharedProgress::round_quiet() const noexcept {
    return !sends() || quiet_.load() == round_.ordinal.load();
}

bool SharedProgress::messages_ended() const {
    return (buckets_ == nullptr || buckets_->quiet()) &&
           (summaries_ == nullptr || summaries_->quiet());
}

/// While messages are in flight the next one is near.
bool SharedProgress::look_again(bool moved) {
    if (buckets_ == nullptr || buckets_->quiet()) {
        return false;
    }
    const auto now = std::chrono::steady_clock::now();
    last_move_ = moved ? now : last_move_;
    return now - last_move_ < kMemoryPolling;
}

/// Paced: the communication thread lets buckets arrive as they would over a network.
bool SharedProgress::arrive_in_time() {
    bool moved = false;
    for (std::int64_t next = round_.arrived.load(); next < round_.wanted.load(); ++next) {
        const FloatRange range = round_.setting.buckets.range(next);
        if (!round_.setting.comm.network.pacer.may_exchange(round_.setting.traffic_of(range))) {
            break;
        }
        if (round_.arrive_until(next + 1)) {
            round_.node.progress().ring_bell();
        }
        moved = true;
    }
    if (moved && round_.groups.count() > 1) {
        round_.wake_leader();
    }
    return moved;
}

}  // namespace cohort
