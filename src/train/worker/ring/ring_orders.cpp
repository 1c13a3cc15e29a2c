#include "train/worker/ring/ring_orders.hpp"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

std::uint64_t epoch_of(const RingOrders::Order& order) {
    return std::visit([](const auto& one) { return one.epoch; }, order);
}

}  // namespace

void RingOrders::queue(Order order) {
    const std::uint64_t epoch = epoch_of(order);
    epoch_ = std::max(epoch_, epoch);
    if (epoch == epoch_) {
        orders_.push_back(std::move(order));
    }
}

void RingOrders::recover(const RecoverOrder& order) {
    recover_ = order;
    epoch_ = std::max(epoch_, order.epoch);
    std::erase_if(orders_, [this](Order& one) { return is_void(one); });
}

void RingOrders::join(const JoinOrder& order) {
    orders_.clear();
    recover_.reset();
    join_ = order;
}

RingOrders::Order RingOrders::take() {
    Order order = std::move(orders_.front());
    orders_.pop_front();
    return order;
}

/// A snapshot that no round goes with stays: the model that it is taken of is complete on this
/// worker. Evaluations are ordered again.
bool RingOrders::is_void(Order& order) const {
    if (epoch_of(order) >= epoch_) {
        return false;
    }
    auto* round = std::get_if<RoundOrder>(&order);
    if (round == nullptr) {
        return true;
    }
    round->evaluation = 0;
    return !round->members.empty() || round->snapshot.empty();
}

}  // namespace cohort
