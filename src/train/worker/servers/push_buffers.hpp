#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/sparse_rows.hpp"
#include "train/worker/node_staging.hpp"
#include "train/worker/servers/error_feedback.hpp"
#include "train/worker/servers/worker_parameters.hpp"
#include "train/worker/worker_context.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {

using Transfers = std::vector<std::shared_ptr<OutgoingTransfer>>;

/// Where the values of a push are written, in ShardedLayout: as they are, or rounded to bf16 with
/// what the rounding of earlier pushes left. What it refers to outlives it.
class PushWriter {
public:
    explicit PushWriter(std::span<float> to) : floats_(to.data()), size_(to.size()) {}
    /// @param rest  null: the push is rounded by itself
    PushWriter(std::uint16_t* to, std::size_t size, ErrorFeedback::Push* rest)
        : shorts_(to), size_(size), rest_(rest) {}
    /// For what lies in `buffer` until it leaves. @param rest  as above, for kBf16
    [[nodiscard]] static PushWriter into(Wire wire, const ShardedLayout& layout,
                                         const Buffer& buffer, ErrorFeedback::Push* rest);
    /// The same for a push of this form, which outlives the result.
    [[nodiscard]] PushWriter with(const PushForm& form) const {
        PushWriter writer = *this;
        writer.form_ = &form;
        return writer;
    }

    /// Values from `begin` of the parameters on. What the push does not have must be zero.
    void put(std::int64_t begin, std::span<const float> values) const;
    /// All of the state, which ends the push.
    void put_state(std::span<const float> values) const {
        put(static_cast<std::int64_t>(size_ - values.size()), values);
    }

private:
    void put_at(std::int64_t to, std::int64_t begin, std::span<const float> values) const;

    float* floats_ = nullptr;
    std::uint16_t* shorts_ = nullptr;
    std::size_t size_;  ///< of a push of all floats, in numbers
    ErrorFeedback::Push* rest_ = nullptr;
    const PushForm* form_ = nullptr;  ///< null: all floats
};

/// Memory for outgoing pushes, in ShardedLayout. A buffer is used again when all of its
/// transfers are done; two are enough unless the network is slower than training.
class SendBuffers {
public:
    SendBuffers(const ShardedLayout& layout, Device& device, int buffers = 2,
                Wire wire = Wire::kF32);

    /// A buffer that nothing leaves from any more; null when there is none
    [[nodiscard]] std::shared_ptr<Buffer> free() const;
    /// The same; a further buffer when there is none.
    [[nodiscard]] std::shared_ptr<Buffer> free_or_new();
    /// `buffer` is in use until these are done.
    void in_use(const std::shared_ptr<Buffer>& buffer, Transfers transfers);
    /// Transfers of the oldest push, by server.
    [[nodiscard]] const Transfers& oldest() const noexcept;
    /// Servers whose transfer is not done; for any thread.
    [[nodiscard]] static std::vector<int> missing(const Transfers& transfers);

private:
    struct Slot {
        std::shared_ptr<Buffer> buffer;
        Transfers transfers;
        std::uint64_t use = 0;  ///< counts uses of all buffers
    };
    Device& device_;
    std::size_t bytes_;  ///< of a push
    std::vector<Slot> slots_;
    std::uint64_t uses_ = 0;
};

/// The way of a worker's pushes to those who own the shards of its layout.
struct PushRoute {
    const CommContext& comm;
    const ShardedLayout& layout;
    std::vector<Address> owners;  ///< by shard
    Wire wire = Wire::kF32;

    [[nodiscard]] static PushRoute to_servers(const CommContext& comm, const ShardedLayout& layout,
                                              Wire wire = Wire::kF32);
    /// Of a push of all floats.
    [[nodiscard]] PushForm whole() const { return {layout.shards(), wire}; }
    /// One transfer per shard from `buffer`; nothing leaves before it is released.
    [[nodiscard]] Transfers start(const PushId& push, const std::shared_ptr<Buffer>& buffer,
                                  const PushForm& form) const;
    /// All of them may leave, whatever is in their buffer.
    static void release(const Transfers& transfers, const PushForm& form);
};

/// A training step whose gradient and batch statistics are gathered in host memory, in the layout
/// of pushes.
class LayoutObserver : public GradientObserver {
public:
    LayoutObserver(const StepContext& parts, PushWriter to, std::function<bool()> give_up)
        : GradientObserver(parts, std::move(give_up)), to_(to) {}

protected:
    void put(std::int64_t begin, std::span<const float> gradient) override {
        to_.put(begin, gradient);
    }
    void put_statistics(std::span<const float> batch_state) override { to_.put_state(batch_state); }
    void final_from(std::int64_t /*low*/) override {}

private:
    PushWriter to_;
};

/// The same for a gradient that leaves while backward runs: released from the end on. The transfers
/// start with the first piece; the batch statistics are behind the gradients of the last shard.
class PushObserver final : public LayoutObserver {
public:
    /// @param route, form  outlive it  @param to  writes into `buffer`
    PushObserver(const StepContext& parts, const PushRoute& route, const PushForm& form,
                 std::shared_ptr<Buffer> buffer, PushWriter to, const PushId& push,
                 std::function<bool()> give_up = {})
        : LayoutObserver(parts, to.with(form), std::move(give_up)),
          route_(route),
          form_(form),
          buffer_(std::move(buffer)),
          push_(push) {}

    [[nodiscard]] const Transfers& transfers() const noexcept { return transfers_; }

protected:
    void put_statistics(std::span<const float> batch_state) override;
    void final_from(std::int64_t low) override;

private:
    const PushRoute& route_;
    const PushForm& form_;
    std::shared_ptr<Buffer> buffer_;
    PushId push_;
    Transfers transfers_;  ///< by shard
};

/// Where a push is written to: a buffer that it leaves from, or a slot of memory of the node.
struct PushBuffer {
    std::shared_ptr<Buffer> buffer;  ///< null: there is a slot
    std::int32_t slot = -1;
    PushWriter to;  ///< of either
};

/// The memory for a worker's pushes, and its part in staging those of its node.
class PushBuffers {
public:
    /// @param context, layout outlive it. Errors: DeviceError.
    PushBuffers(WorkerContext& context, const ShardedLayout& layout);

    /// A place for the push of a lease; nothing while all buffers are in flight.
    /// @param version of the parameters in use
    [[nodiscard]] std::optional<PushBuffer> find_free(const LeaseOrder& lease,
                                                      std::int64_t version);
    /// `push`, for a lease, is written there from now on.
    void use(PushBuffer& place, const PushId& push, const LeaseOrder& lease);
    /// The push came to nothing before it was announced.
    void give_back(const PushBuffer& place, const PushId& push);
    /// What became of this worker's pushes.
    void decided(const PushOutcomes& outcomes);
    /// Writes all of it at once, and from a buffer it leaves.
    /// @param values  [parameters, batch statistics]
    void put(const PushBuffer& place, const PushId& push, std::span<const float> values);
    /// It leaves from its buffer by these.
    void leaves(const PushBuffer& place, Transfers transfers);
    [[nodiscard]] const PushRoute& route() const noexcept { return route_; }
    /// Of the gradient of a mini-batch.
    [[nodiscard]] PushForm form_of(const BatchView& batch) const;
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
    PushRoute route_;                ///< to the servers
    std::optional<RowTable> table_;  ///< of which gradients have some rows
    std::optional<SendBuffers> buffers_;
    std::optional<ErrorFeedback> feedback_;  ///< with Wire::kBf16
    std::optional<NodeSlots> slots_;         ///< with node staging
    std::optional<NodeAgent> agent_;
};

}  // namespace cohort
