#include "server_line.hpp"

#include <utility>

namespace cohort {

void ServerLine::add(double core_s, VirtualCluster::Action done) {
    orders_.push_back({core_s, std::move(done)});
    if (orders_.size() == 1) {
        begin();
    }
}

void ServerLine::begin() {
    begun_s_ = cluster_.queue().now();
    work_ = cluster_.serve(use_.node, orders_.front().core_s, threads_, [this] { done(); });
}

void ServerLine::done() {
    Order order = std::move(orders_.front());
    orders_.pop_front();
    work_ = 0;
    use_.cpu_core_s += order.core_s;
    use_.busy_s += cluster_.queue().now() - begun_s_;
    if (!orders_.empty()) {
        begin();
    }
    order.done();
}

void ServerLine::clear() {
    if (work_ != 0) {
        const double left = cluster_.cancel(work_);
        use_.cpu_core_s += (1 - left) * orders_.front().core_s;
        use_.busy_s += cluster_.queue().now() - begun_s_;
    }
    work_ = 0;
    orders_.clear();
}

}  // namespace cohort
