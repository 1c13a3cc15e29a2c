// Transfers: a latency, then an activity that takes its part of every network card on its way. What
// stays on a node takes none, but holds the whole to the local rate.
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "sim/cluster/cluster_impl.hpp"

namespace cohort {

void VirtualCluster::Impl::add_use(std::vector<FluidNetwork::Use>& uses,
                                   FluidNetwork::ResourceId resource, double share) {
    std::uint32_t& known = use_of[static_cast<std::size_t>(resource)];
    if (known == 0) {
        uses.push_back({resource, 0});
        known = static_cast<std::uint32_t>(uses.size());
    }
    uses[known - 1].share += share;
}

VirtualCluster::WorkId VirtualCluster::Impl::begin_transfer(WorkId id, double latency,
                                                            double local_share) {
    Work& each = work(id);
    each.stage = Stage::kLatency;
    each.max_rate =
        local_share > 0 ? profile.local_bytes_per_s / local_share : FluidNetwork::kUnlimited;
    if (latency > 0 && !each.uses.empty()) {
        each.event = queue.after(latency, [this, id] { begin_flow(id); });
    } else {
        begin_flow(id);
    }
    return id;
}

void VirtualCluster::Impl::begin_flow(WorkId id) {
    Work& each = work(id);
    each.stage = Stage::kFlow;
    each.activity = fluid.begin(each.amount, each.uses, each.max_rate, [this, id] { finish(id); });
}

VirtualCluster::WorkId VirtualCluster::Impl::transfer(int outer, const std::vector<int>& inner,
                                                      bool outer_sends, double bytes, Action done) {
    if (inner.empty() || !(bytes >= 0)) {
        throw std::logic_error("[VirtualCluster] a transfer needs a node at each end, bytes >= 0");
    }
    const WorkId id = take(Stage::kLatency, outer, std::move(done));
    Work& each = work(id);
    each.amount = bytes;
    each.uses.clear();
    const double part = 1 / static_cast<double>(inner.size());
    const double local = part * static_cast<double>(std::count(inner.begin(), inner.end(), outer));
    if (local < 1) {
        const Ends far = ends_of(inner, each);
        const Node& near = node(outer);
        each.uses.push_back({outer_sends ? far.rx : far.tx, 1});
        each.uses.push_back({outer_sends ? near.tx : near.rx, 1 - local});
        if (local > 0) {
            each.uses.push_back({outer_sends ? near.rx : near.tx, -local});
        }
    }
    return begin_transfer(id, profile.latency_s, local);
}

/// All named nodes, whatever the other end is.
VirtualCluster::Impl::Ends VirtualCluster::Impl::ends_of(const std::vector<int>& named,
                                                         Work& transfer) {
    if (std::equal(named.begin() + 1, named.end(), named.begin())) {
        return {node(named.front()).rx, node(named.front()).tx};
    }
    KnownEnds& known = ends[named];
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
        rx.push_back({node(index).rx, part * count});
        tx.push_back({node(index).tx, part * count});
    }
    known.rx = fluid.add_group(rx);
    known.tx = fluid.add_group(tx);
    return known;
}

std::size_t VirtualCluster::forget_unused() {
    for (auto it = impl_->ends.begin(); it != impl_->ends.end();) {
        Impl::KnownEnds& known = it->second;
        const bool used = std::exchange(known.recent, false) || known.transfers > 0;
        if (!used) {
            impl_->fluid.forget_group(known.rx);
            impl_->fluid.forget_group(known.tx);
        }
        it = used ? std::next(it) : impl_->ends.erase(it);
    }
    return impl_->ends.size();
}

VirtualCluster::WorkId VirtualCluster::send(int from_node, int to_node, double bytes, Action done) {
    return impl_->transfer(from_node, {to_node}, true, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::scatter(int from_node, const std::vector<int>& to_nodes,
                                               double bytes, Action done) {
    return impl_->transfer(from_node, to_nodes, true, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::gather(const std::vector<int>& from_nodes, int to_node,
                                              double bytes, Action done) {
    return impl_->transfer(to_node, from_nodes, false, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::all_reduce(const std::vector<int>& nodes, double bytes,
                                                  Action done) {
    if (nodes.empty() || !(bytes >= 0)) {
        throw std::logic_error("[VirtualCluster::all_reduce] no members, or bytes < 0");
    }
    const WorkId id = impl_->take(Impl::Stage::kLatency, nodes.front(), std::move(done));
    auto& work = impl_->work(id);
    const auto members = static_cast<double>(nodes.size());
    const double steps = 2 * (members - 1);
    work.amount = steps / members * bytes;
    work.uses.clear();
    bool local = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const int from = nodes[i];
        const int to = nodes[i + 1 < nodes.size() ? i + 1 : 0];
        if (from == to) {
            local = true;
            continue;
        }
        impl_->add_use(work.uses, impl_->node(from).tx, 1);
        impl_->add_use(work.uses, impl_->node(to).rx, 1);
    }
    for (const FluidNetwork::Use& use : work.uses) {
        impl_->use_of[static_cast<std::size_t>(use.resource)] = 0;
    }
    return impl_->begin_transfer(id, steps * impl_->profile.latency_s, local ? 1 : 0);
}

}  // namespace cohort
