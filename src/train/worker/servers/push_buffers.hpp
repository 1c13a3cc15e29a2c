#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/worker/node_agent.hpp"
#include "train/worker/node_slots.hpp"
#include "train/worker/servers/worker_push.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

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
