// What happens to the cluster: rows of a trace, arrivals of other jobs.
#include <algorithm>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/cluster/cluster_impl.hpp"

namespace cohort {
namespace {

void check(const TraceRow& row, std::size_t nodes, std::size_t places) {
    const bool of_node = row.target.kind == TraceTarget::Kind::kNode;
    const std::size_t count = of_node ? nodes : places;
    const std::string what = of_node ? "node" : "worker";
    if (row.target.index < 0 || static_cast<std::size_t>(row.target.index) >= count) {
        throw UsageError("[trace] a row at " + std::to_string(row.time_s) + " s concerns " + what +
                         " " + std::to_string(row.target.index) + "; there are " +
                         std::to_string(count) + " " + what + "s");
    }
    const Shares& shares = row.shares;
    const double least = std::min({shares.cpu, shares.rx, shares.tx, shares.device});
    if (!(least > 0) || !(shares.delay_s >= 0)) {
        throw UsageError("[trace] the row of " + what + " " + std::to_string(row.target.index) +
                         " at " + std::to_string(row.time_s) +
                         " s is out of range; expected shares above 0 and a delay of at least 0");
    }
}

}  // namespace

void VirtualCluster::Impl::next_rows() {
    while (row && row->time_s <= queue.now()) {
        apply(*row);
        row = scenario->next_row();
    }
    if (row) {
        queue.at(row->time_s, [this] { next_rows(); });
    }
}

void VirtualCluster::Impl::next_arrival() {
    if (std::optional<JobArrival> job = scenario->next_job()) {
        const double time = std::max(job->time_s, queue.now());
        queue.at(time, [this, job = *std::move(job)] {
            arrival(job);
            next_arrival();
        });
    }
}

void VirtualCluster::Impl::apply(const TraceRow& change) {
    check(change, nodes.size(), places.size());
    if (change.target.kind == TraceTarget::Kind::kNode) {
        apply_to_node(change.target.index, change.shares);
    } else {
        Place& where = place(change.target.index);
        where.own = change.shares;
        refresh(where);
    }
}

void VirtualCluster::Impl::apply_to_node(int index, const Shares& shares) {
    Node& where = node(index);
    const Shares before = std::exchange(where.own, shares);
    if (shares.rx != before.rx) {
        fluid.set_capacity(where.rx, profile.nic_bytes_per_s * shares.rx);
    }
    if (shares.tx != before.tx) {
        fluid.set_capacity(where.tx, profile.nic_bytes_per_s * shares.tx);
    }
    if (shares.cpu != before.cpu) {
        fluid.set_capacity(where.cores, profile.cores * shares.cpu);
        for (const WorkId id : where.serving) {
            fluid.set_max_rate(work(id).activity, work(id).max_rate * shares.cpu);
        }
    }
    for (const PlaceId id : where.places) {
        refresh(place(id));
    }
}

void VirtualCluster::Impl::refresh(Place& where) {
    const Shares& shared = node(where.node).own;
    const double device = where.total.device;
    where.total = {.cpu = where.own.cpu * shared.cpu,
                   .rx = shared.rx,
                   .tx = shared.tx,
                   .device = where.own.device * shared.device,
                   .delay_s = where.own.delay_s + shared.delay_s};
    for (const WorkId id : where.computing) {
        Work& each = work(id);
        if (each.stage == Stage::kInput) {
            fluid.set_max_rate(each.activity, each.cost.cpu_threads * where.total.cpu);
        } else if (each.stage != Stage::kDelay && where.total.device != device) {
            each.left = std::max(0.0, each.left - (queue.now() - each.since) * device);
            queue.cancel(each.event);
            run_device(id);
        }
    }
}

void VirtualCluster::begin_iteration(PlaceId id, std::int64_t moment) {
    if (impl_->scenario != nullptr) {
        impl_->place(id).delay_s = impl_->scenario->next_delay_s(id, moment);
    }
}

void VirtualCluster::on_arrival(std::function<void(const JobArrival&)> arrival) {
    impl_->arrival = std::move(arrival);
}

void VirtualCluster::start() {
    if (impl_->scenario == nullptr) {
        return;
    }
    impl_->row = impl_->scenario->next_row();
    impl_->next_rows();
    if (impl_->arrival) {
        impl_->next_arrival();
    }
}

}  // namespace cohort
