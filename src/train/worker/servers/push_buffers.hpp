#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train/protocol/links.hpp"
#include "train/protocol/protocol.hpp"
#include "train/worker/node_agent.hpp"
#include "train/worker/node_slots.hpp"
#include "train/worker/servers/worker_parameters.hpp"
#include "train/worker/worker_context.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {

/// Memory for outgoing pushes, in ShardedLayout. A buffer is used again when all of its
/// transfers are done; two are enough unless the network is slower than training.
class SendBuffers {
public:
    SendBuffers(const ShardedLayout& layout, Device& device);

    /// A buffer that nothing leaves from any more; null when there is none
    [[nodiscard]] std::shared_ptr<Buffer> free();
    /// `buffer` is in use until these are done.
    void in_use(const std::shared_ptr<Buffer>& buffer,
                std::vector<std::shared_ptr<OutgoingTransfer>> transfers);
    /// Transfers of the oldest push, by server.
    [[nodiscard]] const std::vector<std::shared_ptr<OutgoingTransfer>>& oldest() const noexcept;
    /// Servers whose transfer is not done; for any thread.
    [[nodiscard]] static std::vector<int> missing(
        const std::vector<std::shared_ptr<OutgoingTransfer>>& transfers);

private:
    struct Slot {
        std::shared_ptr<Buffer> buffer;
        std::vector<std::shared_ptr<OutgoingTransfer>> transfers;
        std::uint64_t use = 0;  ///< counts uses of all buffers
    };
    std::vector<Slot> slots_;
    std::uint64_t uses_ = 0;
};

/// A training step whose gradient leaves for the servers while backward runs: pieces are gathered
/// per shard in `buffer` and released from the end on. One transfer per server, started with the
/// first piece; the batch statistics are behind the gradients of server 0.
class PushObserver final : public GradientObserver {
public:
    PushObserver(const StepParts& parts, const Links& links, const ShardedLayout& layout,
                 std::shared_ptr<Buffer> buffer, PushHeader header,
                 std::function<bool()> give_up = {});

    [[nodiscard]] std::vector<std::shared_ptr<OutgoingTransfer>> transfers() const {
        return transfers_;
    }

protected:
    void put(std::int64_t begin, std::span<const float> gradient) override;
    void put_statistics(std::span<const float> batch_state) override;
    void final_from(std::int64_t low) override;

private:
    const Links& links_;
    const ShardedLayout& layout_;
    std::shared_ptr<Buffer> buffer_;
    PushHeader header_;
    std::vector<std::shared_ptr<OutgoingTransfer>> transfers_;  ///< by server
};

/// A training step whose gradient is gathered in memory of the node, in the same layout.
class SlotObserver final : public GradientObserver {
public:
    SlotObserver(const StepParts& parts, const ShardedLayout& layout, std::span<float> slot,
                 std::function<bool()> give_up)
        : GradientObserver(parts, std::move(give_up)), layout_(layout), slot_(slot) {}

protected:
    void put(std::int64_t begin, std::span<const float> gradient) override;
    void put_statistics(std::span<const float> batch_state) override;
    void final_from(std::int64_t /*low*/) override {}

private:
    const ShardedLayout& layout_;
    std::span<float> slot_;
};

/// Where a push is written to: a buffer that it leaves from, or a slot of memory of the node.
struct PushBuffer {
    std::shared_ptr<Buffer> buffer;  ///< null: there is a slot
    std::int32_t slot = -1;
    std::span<float> floats;  ///< of either, in ShardedLayout
};

/// The memory for a worker's pushes, and its part in staging those of its node.
class PushBuffers {
public:
    using Transfers = std::vector<std::shared_ptr<OutgoingTransfer>>;

    /// @param context, layout outlive it. Errors: DeviceError.
    PushBuffers(WorkerContext& context, const ShardedLayout& layout);

    /// A place for the push of a lease; nothing while all buffers are in flight.
    /// @param version of the parameters in use
    [[nodiscard]] std::optional<PushBuffer> find_free(const LeaseOrder& lease,
                                                      std::int64_t version);
    /// `push` is written there from now on.
    void use(const PushBuffer& place, const PushId& push);
    /// The push came to nothing before it was announced.
    void give_back(const PushBuffer& place);
    /// Writes all of it at once, and from a buffer it leaves.
    /// @param values  [parameters, batch statistics]
    void put(const PushBuffer& place, const PushId& push, std::span<const float> values);
    /// It leaves from its buffer by these.
    void leaves(const PushBuffer& place, Transfers transfers);
    /// Transfers of the oldest push, by server.
    [[nodiscard]] const Transfers& oldest() const noexcept { return buffers_->oldest(); }

    /// The worker restarts. Pushes in flight may never end, and keep their memory.
    void renew();
    /// Throws what has gone wrong on other threads.
    void check() const;
    /// No more pushes: makes the sums that were ordered.
    void end() { agent_.reset(); }

private:
    WorkerContext& context_;
    const ShardedLayout& layout_;
    std::optional<SendBuffers> buffers_;
    std::optional<NodeSlots> slots_;  ///< with node staging
    std::optional<NodeAgent> agent_;
};

}  // namespace cohort
