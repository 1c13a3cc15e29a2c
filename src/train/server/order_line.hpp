#pragma once

#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "train/protocol/links.hpp"
#include "train/protocol/protocol.hpp"
#include "train/server/server_staging.hpp"

namespace cohort {

/// A server's orders, in the order in which they were received. One that lacks pushes waits, with
/// those behind it, under a name that tells which ranks are missing.
class OrderLine {
public:
    struct Update {
        FireOrder order;
        bool void_of_pushes = false;  ///< all of its pushes were discarded
    };
    using Order = std::variant<Update, ReferenceOrder, Empty>;  ///< Empty: kStop

    OrderLine(const Links& links, const PushStaging& staging) : links_(links), staging_(staging) {}

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
    [[nodiscard]] std::optional<int> rank_of(const PushId& push) const;

    const Links& links_;
    const PushStaging& staging_;
    std::deque<Order> line_;
    std::optional<OperationBoard::Wait> lacks_;
};

}  // namespace cohort
