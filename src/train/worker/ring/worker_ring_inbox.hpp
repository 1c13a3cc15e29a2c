#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "cohort/core/clock.hpp"
#include "cohort/tensor/device.hpp"
#include "train/protocol/protocol_ring.hpp"
#include "train/server/server_staging.hpp"

namespace cohort {

/// What a member sends to bring another worker up, complete.
struct ReceivedState {
    StateHeader header;
    std::unique_ptr<float[]> values;  ///< parameters, state, slots: see StateHeader
    std::size_t floats = 0;
    Clock::Seconds announced{0};  ///< SteadyClock
    [[nodiscard]] std::span<const float> all() const noexcept { return {values.get(), floats}; }
};

/// Receives the transfers to one worker of a ring: gradients of its riders (kPush) and states
/// (kState). The sink's side is called by the communication thread.
class RingInbox final : public TransferSink {
public:
    /// @param floats in a rider's push: gradient and batch statistics  @param pulled  how
    /// parameters for riders travel
    explicit RingInbox(std::int64_t floats, PulledBytes pulled)
        : host_(make_cpu_device(1)),
          floats_(floats),
          pulled_(pulled),
          staging_(*host_, floats, pulled.wire) {}
    RingInbox(const RingInbox&) = delete;
    RingInbox& operator=(const RingInbox&) = delete;
    ~RingInbox() override;  ///< keeps the memory of states that never came to their end

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;

    /// A rider's gradient has come out of the mailbox. Null: it had been discarded.
    /// Errors: PeerError for one that does not fit.
    [[nodiscard]] std::shared_ptr<const float> push_arrived(PushId push);
    /// Nobody wants this push; it may be still to come.
    void discard(PushId push) { staging_.discard(push); }
    /// A state has come out of the mailbox.
    void state_arrived(const Message& message);
    /// The oldest complete state that fits.
    [[nodiscard]] std::optional<ReceivedState> take(
        const std::function<bool(const StateHeader&)>& fits);
    /// Lets go of complete states that nobody waits for any more.
    void drop(const std::function<bool(const StateHeader&)>& stale);
    [[nodiscard]] bool has(const std::function<bool(const StateHeader&)>& fits) const;

    /// A message that came when nobody wanted its bytes any more.
    void forget(const Message& message);
    /// World ranks whose transfers are being written into this inbox.
    [[nodiscard]] std::vector<int> coming() const;

private:
    struct Coming {
        Message announcement;
        ReceivedState state;
    };
    [[nodiscard]] std::optional<ReceivedState> strike(const Message& message);
    [[nodiscard]] bool rounded(const StateHeader& header) const noexcept {
        return !header.full && pulled_.wire == Wire::kBf16;
    }

    std::unique_ptr<Device> host_;  ///< whose memory pushes are staged in
    std::int64_t floats_;
    PulledBytes pulled_;
    PushStaging staging_;
    mutable std::mutex mutex_;
    std::deque<Coming> coming_;       ///< in the order of their announcements
    std::deque<ReceivedState> here_;  ///< complete; only the computing thread uses it
};

}  // namespace cohort
