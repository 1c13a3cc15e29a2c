// Transfers: a latency, then an activity that takes its part of every network card on its way. What
// stays on a node takes none, but holds the whole to the local rate.
#include <stdexcept>
#include <utility>

#include "cluster_impl.hpp"

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
    for (const FluidNetwork::Use& use : each.uses) {
        use_of[static_cast<std::size_t>(use.resource)] = 0;
    }
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
    std::size_t local = 0;
    for (const int other : inner) {
        if (other == outer) {
            ++local;
            continue;
        }
        add_use(each.uses, outer_sends ? node(other).rx : node(other).tx, part);
    }
    if (local < inner.size()) {
        add_use(each.uses, outer_sends ? node(outer).tx : node(outer).rx,
                part * static_cast<double>(inner.size() - local));
    }
    return begin_transfer(id, profile.latency_s, part * static_cast<double>(local));
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
    return impl_->begin_transfer(id, steps * impl_->profile.latency_s, local ? 1 : 0);
}

}  // namespace cohort
