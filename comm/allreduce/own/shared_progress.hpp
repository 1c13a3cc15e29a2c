#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/allreduce/own/inter_node_reducer.hpp"
#include "comm/allreduce/own/node_set_up.hpp"

namespace cohort {

/// The current round of a member, as its caller and its communication thread share it.
struct SharedRound {
    /// Collective over the members. Errors: DeviceError, RingBroken.
    SharedRound(const AllReduceSetting& all, bool ordered);

    /// This member's buckets up to `buckets` are final. True: the node has a complete one now.
    bool arrive_until(std::int64_t buckets);
    void wake() const;
    void wake_neighbours() const;
    /// Of the node.
    void wake_leader() const;

    const AllReduceSetting setting;
    const NodeGroups groups;
    NodeMemory memory;
    const int tag;
    NodeReducer node;
    std::atomic<std::uint64_t> ordinal{0};
    std::atomic<std::int64_t> arrived{0};     ///< buckets
    std::atomic<std::int64_t> wanted{0};      ///< paced: buckets that are to arrive
    std::atomic<bool> paced{false};           ///< the communication thread lets buckets arrive
    std::atomic<bool> broken{false};          ///< a member was lost
    std::atomic<bool> driving{false};         ///< the caller works on blocks
    std::atomic<std::uint64_t> submitted{0};  ///< last round with a summary of this member

private:
    SharedRound(const AllReduceSetting& all, const NodeGroups& by_node, const NodeShape& shape);
    SharedRound(const AllReduceSetting& all, const NodeGroups& by_node, const NodeShape& shape,
                NodeSetUp made);
};

/// What the communication thread does for the rounds of a member.
class SharedProgress final : public Poller {
public:
    SharedProgress(SharedRound& round, AllReduceAlgorithm algorithm);

    bool poll() override;
    [[nodiscard]] bool moving() const override;
    void members_changed() override;

    /// This rank exchanges buckets with other nodes. From any thread, as the next two.
    [[nodiscard]] bool sends_buckets() const noexcept { return buckets_ != nullptr; }
    [[nodiscard]] bool sends() const noexcept {
        return buckets_ != nullptr || summaries_ != nullptr;
    }
    /// Nothing of this rank's last round is in flight or still to be sent.
    [[nodiscard]] bool round_quiet() const noexcept;
    /// On the communication thread, or when it does not poll this object.
    [[nodiscard]] bool messages_ended() const;

private:
    [[nodiscard]] bool look_again(bool moved);
    bool arrive_in_time();

    SharedRound& round_;
    std::unique_ptr<InterNodeReducer> buckets_;    ///< null within one node, or if only others send
    std::unique_ptr<InterNodeReducer> summaries_;  ///< of a node's first member, with several nodes
    NodeReducer::Cursor cursor_;
    std::chrono::steady_clock::time_point last_move_;
    std::atomic<std::uint64_t> quiet_{0};  ///< last submitted round whose messages have ended
};

}  // namespace cohort
