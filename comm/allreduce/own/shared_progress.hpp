#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/allreduce/own/shared_round.hpp"

namespace cohort {

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
    void set_rest(RoundRest rest) {
        if (buckets_ != nullptr) {
            buckets_->set_rest(rest);
        }
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
