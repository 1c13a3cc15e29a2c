#include "sim/cluster/virtual_sum.hpp"

#include <utility>

namespace cohort {

VirtualSum::VirtualSum(VirtualCluster& cluster, std::vector<int> nodes, double bytes, Action over)
    : cluster_(cluster), nodes_(std::move(nodes)), bytes_(bytes), over_(std::move(over)) {
}

VirtualSum::~VirtualSum() {
    if (work_ != 0) {
        cluster_.cancel(work_);
    }
    if (event_ != 0) {
        cluster_.queue().cancel(event_);
    }
}

void VirtualSum::begun() {
    if (++begun_ < nodes_.size()) {
        return;
    }
    if (nodes_.size() == 1) {
        reduced_ = true;
        return;
    }
    work_ = cluster_.all_reduce(nodes_, bytes_, [this, begun_s = cluster_.queue().now()] {
        work_ = 0;
        moving_s_ = cluster_.queue().now() - begun_s;
        reduced_ = true;
        arrived();
    });
}

void VirtualSum::done() {
    ++done_;
    arrived();
}

/// By an event, since what it calls may end this object.
void VirtualSum::arrived() {
    if (reduced_ && done_ == nodes_.size()) {
        event_ = cluster_.queue().after(0, [this] {
            event_ = 0;
            const Action over = std::move(over_);
            over();
        });
    }
}

double VirtualSum::bytes_of_a_member() const noexcept {
    const auto members = static_cast<double>(nodes_.size());
    return 4 * (members - 1) / members * bytes_;
}

}  // namespace cohort
