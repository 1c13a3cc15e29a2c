#include "train/server/order_line.hpp"

#include <utility>

#include "train/protocol/protocol_node.hpp"

namespace cohort {

std::optional<OrderLine::Order> OrderLine::take(std::int64_t version) {
    if (line_.empty()) {
        return std::nullopt;
    }
    std::vector<PushId> wanted = lacking();
    if (wanted.empty()) {
        lacks_.reset();
        Order order = std::move(line_.front());
        line_.pop_front();
        return order;
    }
    if (!lacks_) {
        lacks_ = links_.operations.begin(
            "gradients of an update", static_cast<std::uint64_t>(version + 1),
            [this, wanted = std::move(wanted)] { return ranks_of(not_here(wanted)); });
    }
    return std::nullopt;
}

/// Pushes that the first order in line needs and that have not been received.
std::vector<PushId> OrderLine::lacking() const {
    std::vector<PushId> wanted;
    if (const auto* update = std::get_if<Update>(&line_.front())) {
        for (const WeightedPush& one : update->order.pushes) {
            wanted.push_back(one.push);
        }
    } else if (const auto* reference = std::get_if<ReferenceOrder>(&line_.front())) {
        wanted.push_back(reference->push);
    }
    return not_here(std::move(wanted));
}

std::vector<PushId> OrderLine::not_here(std::vector<PushId> pushes) const {
    std::erase_if(pushes, [this](const PushId& one) { return staging_.is_here(one); });
    return pushes;
}

/// World ranks that they come from, without those that are lost.
std::vector<int> OrderLine::ranks_of(const std::vector<PushId>& pushes) const {
    std::vector<int> ranks;
    for (const PushId& push : pushes) {
        if (const std::optional<int> rank = rank_of(push)) {
            ranks.push_back(*rank);
        }
    }
    return ranks;
}

std::optional<int> OrderLine::rank_of(const PushId& push) const {
    const auto lost = [this](int rank) {
        return links_.membership != nullptr && links_.membership->excluded(rank);
    };
    if (push.worker >= 0) {
        const int rank = links_.map.rank_of_worker(push.worker);
        return lost(rank) ? std::nullopt : std::optional(rank);
    }
    for (const int rank : links_.map.on_node(node_of_sum(push))) {
        if (rank >= links_.map.servers && !lost(rank)) {
            return rank;
        }
    }
    return std::nullopt;
}

void OrderLine::discard(const PushId& push) {
    for (Order& order : line_) {
        if (auto* update = std::get_if<Update>(&order)) {
            std::vector<WeightedPush>& pushes = update->order.pushes;
            const auto gone = std::erase_if(
                pushes, [&](const WeightedPush& one) { return same_push(one.push, push); });
            update->void_of_pushes |= gone > 0 && pushes.empty();
        }
    }
}

}  // namespace cohort
