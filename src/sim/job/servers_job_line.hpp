#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "cohort/sim/simulation.hpp"
#include "sim/cluster/cluster.hpp"

namespace cohort {

/// A server of a virtual job, or who sums for a node: what it is asked to do waits in line, one
/// thing at a time.
class ServerLine {
public:
    struct Order {
        double core_s = 0;
        VirtualCluster::Action begun;  ///< called when it begins; may be empty
        VirtualCluster::Action done;   ///< called when it is done, in the order of the calls
        /// It does not begin, and what is behind it neither, before this is 0; null: nothing is
        /// missing. Whoever makes it 0 calls advance().
        std::shared_ptr<const int> missing;
    };

    using Served = std::function<void(double begin_s, double end_s)>;

    /// @param threads  cores that it can use at once @param served  is told of what is done; may be
    /// empty
    ServerLine(VirtualCluster& cluster, int node, double threads, Served served = {})
        : cluster_(cluster), threads_(threads), served_(std::move(served)), use_{.node = node} {}
    ServerLine(const ServerLine&) = delete;
    ServerLine& operator=(const ServerLine&) = delete;

    void add(Order order) {
        orders_.push_back(std::move(order));
        advance();
    }

    /// Begins what may begin.
    void advance() {
        const bool waits = work_ != 0 || orders_.empty() ||
                           (orders_.front().missing && *orders_.front().missing > 0);
        if (waits) {
            return;
        }
        begun_s_ = cluster_.queue().now();
        work_ = cluster_.serve(use_.node, orders_.front().core_s, threads_, [this] { done(); });
        if (orders_.front().begun) {
            orders_.front().begun();
        }
    }

    /// Gives up all that waits.
    void clear() {
        if (work_ != 0) {
            const double left = cluster_.cancel(work_);
            use_.cpu_core_s += (1 - left) * orders_.front().core_s;
            use_.busy_s += cluster_.queue().now() - begun_s_;
        }
        work_ = 0;
        orders_.clear();
    }

    [[nodiscard]] bool idle() const noexcept { return work_ == 0; }
    /// Without bytes.
    [[nodiscard]] const ServerUse& use() const noexcept { return use_; }

private:
    void done() {
        const Order order = std::move(orders_.front());
        orders_.pop_front();
        work_ = 0;
        use_.cpu_core_s += order.core_s;
        use_.busy_s += cluster_.queue().now() - begun_s_;
        if (served_) {
            served_(begun_s_, cluster_.queue().now());
        }
        order.done();
        advance();
    }

    VirtualCluster& cluster_;
    double threads_;
    Served served_;
    ServerUse use_;
    std::deque<Order> orders_;  ///< the first one is in work, unless something is missing
    VirtualCluster::WorkId work_ = 0;
    double begun_s_ = 0;
};

}  // namespace cohort
