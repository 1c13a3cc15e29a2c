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

void VirtualCluster::Impl::ScenarioPlayer::next_rows() {
    while (row_ && row_->time_s <= cluster_.queue.now()) {
        apply(*row_);
        row_ = scenario_->next_row();
    }
    if (row_) {
        cluster_.queue.at(row_->time_s, [this] { next_rows(); });
    }
}

void VirtualCluster::Impl::ScenarioPlayer::next_arrival() {
    if (std::optional<JobArrival> job = scenario_->next_job()) {
        const double time = std::max(job->time_s, cluster_.queue.now());
        cluster_.queue.at(time, [this, job = *std::move(job)] {
            arrival_(job);
            next_arrival();
        });
    }
}

void VirtualCluster::Impl::ScenarioPlayer::apply(const TraceRow& change) {
    check(change, cluster_.nodes.size(), cluster_.places.size());
    if (change.target.kind == TraceTarget::Kind::kNode) {
        apply_to_node(change.target.index, change.shares);
    } else {
        Place& where = cluster_.place(change.target.index);
        where.own = change.shares;
        refresh(where);
    }
}

void VirtualCluster::Impl::ScenarioPlayer::apply_to_node(int index, const Shares& shares) {
    Node& where = cluster_.node(index);
    const Shares before = std::exchange(where.own, shares);
    if (shares.rx != before.rx) {
        cluster_.fluid.set_capacity(where.rx, cluster_.profile.nic_bytes_per_s * shares.rx);
    }
    if (shares.tx != before.tx) {
        cluster_.fluid.set_capacity(where.tx, cluster_.profile.nic_bytes_per_s * shares.tx);
    }
    if (shares.cpu != before.cpu) {
        cluster_.fluid.set_capacity(where.cores, cluster_.profile.cores * shares.cpu);
        for (const WorkId id : where.serving) {
            cluster_.fluid.set_max_rate(cluster_.work(id).activity,
                                        cluster_.work(id).max_rate * shares.cpu);
        }
    }
    for (const PlaceId id : where.places) {
        refresh(cluster_.place(id));
    }
}

void VirtualCluster::Impl::ScenarioPlayer::refresh(Place& where) {
    const Shares& shared = cluster_.node(where.node).own;
    const double device = where.total.device;
    where.total = {.cpu = where.own.cpu * shared.cpu,
                   .rx = shared.rx,
                   .tx = shared.tx,
                   .device = where.own.device * shared.device,
                   .delay_s = where.own.delay_s + shared.delay_s};
    for (const WorkId id : where.computing) {
        Work& each = cluster_.work(id);
        if (each.stage == Stage::kInput) {
            cluster_.fluid.set_max_rate(each.activity, each.cost.cpu_threads * where.total.cpu);
        } else if (each.stage != Stage::kDelay && where.total.device != device) {
            each.left = std::max(0.0, each.left - (cluster_.queue.now() - each.since) * device);
            cluster_.queue.cancel(each.event);
            cluster_.run_device(id);
        }
    }
}

void VirtualCluster::Impl::ScenarioPlayer::begin_iteration(PlaceId id, std::int64_t moment) {
    if (scenario_ != nullptr) {
        cluster_.place(id).delay_s = scenario_->next_delay_s(id, moment);
    }
}

void VirtualCluster::Impl::ScenarioPlayer::start() {
    if (scenario_ == nullptr) {
        return;
    }
    row_ = scenario_->next_row();
    next_rows();
    if (arrival_) {
        next_arrival();
    }
}

void VirtualCluster::begin_iteration(PlaceId id, std::int64_t moment) {
    impl_->player->begin_iteration(id, moment);
}

void VirtualCluster::on_arrival(std::function<void(const JobArrival&)> arrival) {
    impl_->player->on_arrival(std::move(arrival));
}

void VirtualCluster::start() {
    impl_->player->start();
}

}  // namespace cohort
