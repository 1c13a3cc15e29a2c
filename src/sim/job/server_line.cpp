#include "sim/job/server_line.hpp"

#include <utility>

namespace cohort {

void ServerLine::add(Order order) {
    orders_.push_back(std::move(order));
    advance();
}

void ServerLine::advance() {
    const bool waits =
        work_ != 0 || orders_.empty() || (orders_.front().missing && *orders_.front().missing > 0);
    if (waits) {
        return;
    }
    begun_s_ = cluster_.queue().now();
    work_ = cluster_.serve(use_.node, orders_.front().core_s, threads_, [this] { done(); });
    if (orders_.front().begun) {
        orders_.front().begun();
    }
}

void ServerLine::done() {
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    work_ = 0;
    use_.cpu_core_s += order.core_s;
    use_.busy_s += cluster_.queue().now() - begun_s_;
    order.done();
    advance();
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
