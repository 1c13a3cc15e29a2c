#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "train/protocol/protocol_ring.hpp"

namespace cohort {

/// What the coordinator has ordered and the worker has not carried out.
class RingOrders {
public:
    using Order = std::variant<RoundOrder, RoleOrder, SendStateOrder>;

    void queue(Order order);
    /// A member was lost: orders of older epochs are void.
    void recover(const RecoverOrder& order);
    /// This worker was lost and joins again: all orders from before are void.
    void join(const JoinOrder& order);

    /// Epoch of the newest order.
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
    [[nodiscard]] bool empty() const noexcept { return orders_.empty(); }
    /// A recovery or a join, which come before all other orders, is waiting.
    [[nodiscard]] bool interrupted() const noexcept { return recover_ || join_; }

    [[nodiscard]] std::optional<JoinOrder> take_join() { return std::exchange(join_, {}); }
    [[nodiscard]] std::optional<RecoverOrder> take_recovery() {
        return std::exchange(recover_, {});
    }
    /// The oldest of the others.
    [[nodiscard]] Order take();

private:
    [[nodiscard]] bool is_void(Order& order) const;

    std::deque<Order> orders_;  ///< oldest first
    std::optional<RecoverOrder> recover_;
    std::optional<JoinOrder> join_;
    std::uint64_t epoch_ = 0;
};

}  // namespace cohort
