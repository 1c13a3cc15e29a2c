#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "core/tensor/buffer_pool.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/sparse_rows.hpp"
#include "train/server/busy_time.hpp"

namespace cohort {

/// Memory for the pushes of one shard from their announcement to their update. A push that is
/// discarded before all of its bytes are received keeps its memory until they are. Thread safe.
///
/// A node's aggregate (protocol_node.hpp) may be made more than once, under other incarnations:
/// is_here() and take() ask for any of them, unless the staging is `exact`.
class PushStaging final : public TransferSink {
public:
    /// @param floats in every push, see ShardRange::floats  @param wire  type in which all of them
    /// travel; they are handed out as floats  @param rows  that pushes may leave out; handed out as
    /// zeros
    PushStaging(Device& device, std::int64_t floats, Wire wire = Wire::kF32, bool exact = false,
                ShardRows rows = {});
    /// The shard is another part of the parameters from now on. Pushes of an earlier layout,
    /// received or still to come, are not used.
    void resize(const ShardRange& range, std::uint32_t layout);
    PushStaging(const PushStaging&) = delete;
    PushStaging& operator=(const PushStaging&) = delete;
    ~PushStaging() override;  ///< keeps the memory of pushes that never came to their end

    /// Memory for an announced push; null for one that is already discarded, that has another
    /// size, or that came before (the latter two fail in arrived()).
    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    /// All bytes of an announced push have been received. @return false: it had been discarded and
    /// is gone. Errors: PeerError for a push of another size, or one that was received before.
    [[nodiscard]] bool arrived(PushId push);
    /// Forgets a push, whether it is received, in flight or still to come.
    void discard(PushId push);
    /// World ranks of the pushes that have memory and are not completely received, one for each.
    [[nodiscard]] std::vector<int> coming() const;
    [[nodiscard]] bool is_here(const PushId& push) const;
    /// Forgets all sums of nodes for updates up to this version.
    void discard_sums(std::int64_t version);
    /// All bytes of a push that is not needed any more have been received; it may be unknown.
    void forget(PushId push);
    /// Hands out a push and forgets it. Errors: PeerError when it has not been received.
    [[nodiscard]] std::shared_ptr<const float> take(PushId push);
    /// A push without forgetting it; null when it has not been received.
    [[nodiscard]] std::shared_ptr<const float> peek(const PushId& push) const;

    /// Most memory for pushes of a layout at any time.
    [[nodiscard]] std::uint64_t bytes_most() const;
    /// When pushes are being received.
    [[nodiscard]] BusyTime& busy() noexcept { return busy_; }

private:
    struct Entry {
        std::shared_ptr<float> data;  // null: discarded before it was announced, or refused
        std::uint64_t bytes = 0;      // as announced
        int from = -1;                // world rank that announced it
        std::shared_ptr<const void> receiving;  // it counts as busy
        bool here = false;
        bool discarded = false;
        bool repeated = false;  // announced more than once
    };

    using Pushes = std::map<PushId, Entry>;
    /// Whether a push of all floats has so many bytes, or perhaps one without some rows.
    [[nodiscard]] bool may_fit(std::uint64_t bytes) const noexcept;
    /// Makes a push what updates use. @return false: it does not fit the shard
    [[nodiscard]] bool unpack(float* data, std::uint64_t bytes) const;
    Pushes::iterator discard(Pushes::iterator at);
    /// What can be taken as `push`; end() when it has not been received.
    [[nodiscard]] Pushes::const_iterator find_here(const PushId& push) const;

    Device& device_;
    std::unique_ptr<BufferPool> pool_;
    Wire wire_;
    std::int64_t floats_;
    ShardRows rows_;
    bool exact_;
    std::uint32_t layout_ = 0;
    BusyTime busy_;
    mutable std::mutex mutex_;
    Pushes pushes_;
};

/// A server's orders, in the order in which they were received. One that lacks pushes waits, with
/// those behind it, under a name that tells which ranks are missing.
class OrderLine {
public:
    struct Update {
        FireOrder order;
        bool void_of_pushes = false;  ///< all of its pushes were discarded
    };
    using Order = std::variant<Update, ReferenceOrder, ShardLayout, Empty>;  ///< Empty: kStop

    OrderLine(const CommContext& comm, const PushStaging& staging)
        : comm_(comm), staging_(staging) {}

    void add(Order order) { line_.push_back(std::move(order)); }
    /// The oldest order, unless it lacks pushes. @param version  of the shard
    [[nodiscard]] std::optional<Order> take(std::int64_t version);
    /// The oldest order lacks pushes.
    [[nodiscard]] bool waits() const noexcept { return lacks_.has_value(); }
    /// A push will not be received: an update that it is part of does without it.
    void discard(const PushId& push);

private:
    [[nodiscard]] std::vector<PushId> lacking() const;
    [[nodiscard]] std::vector<PushId> not_here(std::vector<PushId> pushes) const;
    [[nodiscard]] std::vector<int> ranks_of(const std::vector<PushId>& pushes) const;

    const CommContext& comm_;
    const PushStaging& staging_;
    std::deque<Order> line_;
    std::optional<OperationBoard::Wait> lacks_;
};

}  // namespace cohort
