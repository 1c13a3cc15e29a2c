#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/cluster/cluster_impl.hpp"

namespace cohort {

void VirtualCluster::Impl::Transfers::add_use(Work& each, FluidNetwork::ResourceId resource) {
    std::uint32_t& known = use_of_[static_cast<std::size_t>(resource)];
    if (known == 0) {
        each.uses.push_back({resource, 0});
        known = static_cast<std::uint32_t>(each.uses.size());
    }
    each.uses[known - 1].share += 1;
}

VirtualCluster::WorkId VirtualCluster::Impl::Transfers::begin_latency(WorkId id, double latency,
                                                                      double local_share) {
    Work& each = cluster_.work(id);
    each.stage = Stage::kLatency;
    each.max_rate = local_share > 0 ? cluster_.profile.local_bytes_per_s / local_share
                                    : FluidNetwork::kUnlimited;
    if (latency > 0 && !each.uses.empty()) {
        each.event = cluster_.queue.after(latency, [this, id] { begin_flow(id); });
    } else {
        begin_flow(id);
    }
    return id;
}

void VirtualCluster::Impl::Transfers::begin_flow(WorkId id) {
    Work& each = cluster_.work(id);
    each.stage = Stage::kFlow;
    each.activity = cluster_.fluid.begin(each.amount, each.uses, each.max_rate,
                                         [this, id] { cluster_.finish(id); });
}

VirtualCluster::WorkId VirtualCluster::Impl::Transfers::begin(int outer,
                                                              const std::vector<int>& inner,
                                                              bool outer_sends, double bytes,
                                                              Action done) {
    if (inner.empty() || !(bytes >= 0)) {
        throw std::logic_error("[VirtualCluster] a transfer needs a node at each end, bytes >= 0");
    }
    const WorkId id = cluster_.take(Stage::kLatency, outer, std::move(done));
    Work& each = cluster_.work(id);
    each.amount = bytes;
    each.uses.clear();
    const double part = 1 / static_cast<double>(inner.size());
    const double local = part * static_cast<double>(std::count(inner.begin(), inner.end(), outer));
    if (local < 1) {
        const Ends far = ends_of(inner, each);
        const Node& near = cluster_.node(outer);
        each.uses.push_back({outer_sends ? far.rx : far.tx, 1});
        each.uses.push_back({outer_sends ? near.tx : near.rx, 1 - local});
        if (local > 0) {
            each.uses.push_back({outer_sends ? near.rx : near.tx, -local});
        }
    }
    return begin_latency(id, cluster_.profile.latency_s, local);
}

/// All named nodes, whatever the other end is.
VirtualCluster::Impl::Ends VirtualCluster::Impl::Transfers::ends_of(const std::vector<int>& named,
                                                                    Work& transfer) {
    if (std::equal(named.begin() + 1, named.end(), named.begin())) {
        return {cluster_.node(named.front()).rx, cluster_.node(named.front()).tx};
    }
    KnownEnds& known = ends_[named];
    transfer.ends = &known;
    ++known.transfers;
    if (std::exchange(known.recent, true) || known.rx != 0) {
        return known;
    }
    const double part = 1 / static_cast<double>(named.size());
    std::map<int, double> shares;
    for (const int index : named) {
        shares[index] += 1;
    }
    std::vector<FluidNetwork::Use> rx;
    std::vector<FluidNetwork::Use> tx;
    for (const auto& [index, count] : shares) {
        rx.push_back({cluster_.node(index).rx, part * count});
        tx.push_back({cluster_.node(index).tx, part * count});
    }
    known.rx = cluster_.fluid.add_group(rx);
    known.tx = cluster_.fluid.add_group(tx);
    return known;
}

std::size_t VirtualCluster::Impl::Transfers::forget_unused() {
    for (auto it = ends_.begin(); it != ends_.end();) {
        KnownEnds& known = it->second;
        const bool used = std::exchange(known.recent, false) || known.transfers > 0;
        if (!used) {
            cluster_.fluid.forget_group(known.rx);
            cluster_.fluid.forget_group(known.tx);
        }
        it = used ? std::next(it) : ends_.erase(it);
    }
    return ends_.size();
}

VirtualCluster::WorkId VirtualCluster::Impl::Transfers::begin_all_reduce(
    const std::vector<int>& members, double bytes, Action done) {
    if (members.empty() || !(bytes >= 0)) {
        throw std::logic_error("[VirtualCluster::all_reduce] no members, or bytes < 0");
    }
    const WorkId id = cluster_.take(Stage::kLatency, members.front(), std::move(done));
    Work& each = cluster_.work(id);
    const auto count = static_cast<double>(members.size());
    const double steps = 2 * (count - 1);
    each.amount = steps / count * bytes;
    each.uses.clear();
    bool local = false;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const int from = members[i];
        const int to = members[i + 1 < members.size() ? i + 1 : 0];
        if (from == to) {
            local = true;
            continue;
        }
        add_use(each, cluster_.node(from).tx);
        add_use(each, cluster_.node(to).rx);
    }
    for (const FluidNetwork::Use& use : each.uses) {
        use_of_[static_cast<std::size_t>(use.resource)] = 0;
    }
    return begin_latency(id, steps * cluster_.profile.latency_s, local ? 1 : 0);
}

std::size_t VirtualCluster::forget_unused() {
    return impl_->transfers->forget_unused();
}

VirtualCluster::WorkId VirtualCluster::send(int from_node, int to_node, double bytes, Action done) {
    return impl_->transfers->begin(from_node, {to_node}, true, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::scatter(int from_node, const std::vector<int>& to_nodes,
                                               double bytes, Action done) {
    return impl_->transfers->begin(from_node, to_nodes, true, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::gather(const std::vector<int>& from_nodes, int to_node,
                                              double bytes, Action done) {
    return impl_->transfers->begin(to_node, from_nodes, false, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::all_reduce(const std::vector<int>& nodes, double bytes,
                                                  Action done) {
    return impl_->transfers->begin_all_reduce(nodes, bytes, std::move(done));
}

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
    const bool of_node = change.target.kind == TraceTarget::Kind::kNode;
    check_invariant(std::cmp_less(change.target.index,
                                  of_node ? cluster_.nodes.size() : cluster_.places.size()),
                    "a row of a trace concerns a worker or node that is there");
    if (of_node) {
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
