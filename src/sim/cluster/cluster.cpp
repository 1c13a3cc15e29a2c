// Places, iterations and servers' work. What has a rate that others share is an activity of the
// FluidNetwork; delays and devices, which are not shared, are events whose time is worked out again
// when a device's share changes.
#include "sim/cluster/cluster.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/cluster/cluster_impl.hpp"

namespace cohort {

VirtualCluster::Impl::Impl(EventQueue& events, const ClusterProfile& kind, int node_count,
                           std::unique_ptr<Scenario> what_happens, const ClientWeights* of_clients)
    : queue(events), profile(kind), fluid(events), weights(of_clients) {
    if (node_count < 1) {
        throw std::logic_error("[VirtualCluster] at least one node is needed");
    }
    nodes.resize(static_cast<std::size_t>(node_count));
    for (Node& each : nodes) {
        each.rx = fluid.add_resource(profile.nic_bytes_per_s);
        each.tx = fluid.add_resource(profile.nic_bytes_per_s);
        each.cores = fluid.add_resource(profile.cores);
    }
    transfers = std::make_unique<Transfers>(*this);
    player = std::make_unique<ScenarioPlayer>(*this, std::move(what_happens));
}

VirtualCluster::Impl::~Impl() = default;

VirtualCluster::WorkId VirtualCluster::Impl::take(Stage stage, int owner, Action done) {
    const WorkId id = works.take();
    Work& taken = work(id);
    taken.stage = stage;
    taken.owner = owner;
    taken.client = queue.client();
    taken.event = 0;
    taken.activity = 0;
    taken.ends = nullptr;
    taken.done = std::move(done);
    return id;
}

VirtualCluster::WorkId VirtualCluster::Impl::take_compute(int index, const IterationCost& cost,
                                                          Action backward, Action done) {
    const WorkId id = take(Stage::kDelay, index, std::move(done));
    Work& each = work(id);
    place(index).computing.push_back(id);
    each.cost = cost;
    each.backward = std::move(backward);
    each.delay_s = 0;
    each.since = queue.now();
    return id;
}

void VirtualCluster::Impl::begin_input(WorkId id) {
    Work& each = work(id);
    each.stage = Stage::kInput;
    if (each.cost.cpu_core_s <= 0) {
        begin_forward(id);
        return;
    }
    const Place& where = place(each.owner);
    const FluidNetwork::Use use{node(where.node).cores, 1};
    each.activity = fluid.begin(
        each.cost.cpu_core_s, {&use, 1}, each.cost.cpu_threads * where.total.cpu,
        [this, id] { begin_forward(id); }, weight_of(each));
}

void VirtualCluster::Impl::begin_forward(WorkId id) {
    Work& each = work(id);
    each.stage = Stage::kForward;
    each.left = each.cost.device_s * (each.backward ? 1 - each.cost.backward_share : 1);
    run_device(id);
}

void VirtualCluster::Impl::begin_backward(WorkId id) {
    Work& each = work(id);
    if (!each.backward) {
        finish(id);
        return;
    }
    each.stage = Stage::kBackward;
    each.left = each.cost.device_s * each.cost.backward_share;
    const Action begun = std::exchange(each.backward, nullptr);
    queue.act_for(each.client);
    run_device(id);
    begun();
}

void VirtualCluster::Impl::run_device(WorkId id) {
    Work& each = work(id);
    each.since = queue.now();
    const double seconds = each.left / place(each.owner).total.device;
    if (each.stage == Stage::kForward) {
        each.event = queue.after(seconds, [this, id] { begin_backward(id); });
    } else {
        each.event = queue.after(seconds, [this, id] { finish(id); });
    }
}

void VirtualCluster::Impl::finish(WorkId id) {
    const Action done = std::move(work(id).done);
    queue.act_for(work(id).client);
    forget(id);
    if (done) {
        done();
    }
}

void VirtualCluster::Impl::forget(WorkId id) {
    Work& each = work(id);
    if (each.stage <= Stage::kBackward) {
        std::erase(place(each.owner).computing, id);
    } else if (each.stage == Stage::kServe) {
        std::erase(node(each.owner).serving, id);
    }
    if (each.ends != nullptr) {
        --each.ends->transfers;
    }
    each.backward = nullptr;
    each.done = nullptr;
    works.release(id);
}

double VirtualCluster::Impl::share_left(const Work& each) const {
    if (each.stage > Stage::kBackward) {
        if (each.amount <= 0) {
            return 0;
        }
        const bool flows = each.stage != Stage::kLatency;
        return flows ? fluid.left(each.activity) / each.amount : 1;
    }
    // In seconds of a healthy worker, and the delay.
    const IterationCost& cost = each.cost;
    const double input_s = cost.cpu_core_s / cost.cpu_threads;
    const double total_s = each.delay_s + input_s + cost.device_s;
    const double went = queue.now() - each.since;
    const double device = places[static_cast<std::size_t>(each.owner)].total.device;
    double left_s = 0;
    switch (each.stage) {
        case Stage::kDelay: left_s = total_s - went; break;
        case Stage::kInput:
            left_s = fluid.left(each.activity) / cost.cpu_threads + cost.device_s;
            break;
        case Stage::kForward:
            left_s = each.left - went * device;
            left_s += each.backward ? cost.device_s * cost.backward_share : 0;
            break;
        default: left_s = each.left - went * device;
    }
    return total_s > 0 ? std::clamp(left_s / total_s, 0.0, 1.0) : 0;
}

VirtualCluster::VirtualCluster(EventQueue& queue, const ClusterProfile& profile, int nodes,
                               std::unique_ptr<Scenario> scenario, const ClientWeights* weights)
    : impl_(std::make_unique<Impl>(queue, profile, nodes, std::move(scenario), weights)) {
}

VirtualCluster::~VirtualCluster() = default;

EventQueue& VirtualCluster::queue() noexcept {
    return impl_->queue;
}
const ClusterProfile& VirtualCluster::profile() const noexcept {
    return impl_->profile;
}
int VirtualCluster::nodes() const noexcept {
    return static_cast<int>(impl_->nodes.size());
}

VirtualCluster::PlaceId VirtualCluster::add_place(int node) {
    if (node < 0 || node >= nodes()) {
        throw std::logic_error("[VirtualCluster::add_place] there is no node " +
                               std::to_string(node));
    }
    auto id = static_cast<PlaceId>(impl_->places.size());
    if (impl_->free_places.empty()) {
        impl_->places.emplace_back();
    } else {
        id = impl_->free_places.back();
        impl_->free_places.pop_back();
    }
    auto& place = impl_->place(id);
    place = {};
    place.node = node;
    impl_->node(node).places.push_back(id);
    impl_->player->refresh(place);
    return id;
}

void VirtualCluster::remove_place(PlaceId id) {
    auto& place = impl_->place(id);
    while (!place.computing.empty()) {
        cancel(place.computing.back());
    }
    std::erase(impl_->node(place.node).places, id);
    impl_->free_places.push_back(id);
}

VirtualCluster::WorkId VirtualCluster::compute(PlaceId place, const IterationCost& cost,
                                               Action backward, Action done) {
    const WorkId id = impl_->take_compute(place, cost, std::move(backward), std::move(done));
    auto& work = impl_->work(id);
    work.delay_s = shares(place).delay_s;
    if (work.delay_s > 0) {
        work.event =
            impl_->queue.after(work.delay_s, [impl = impl_.get(), id] { impl->begin_input(id); });
    } else {
        impl_->begin_input(id);
    }
    return id;
}

VirtualCluster::WorkId VirtualCluster::work(PlaceId place, const IterationCost& cost, Action done) {
    const WorkId id = impl_->take_compute(place, cost, nullptr, std::move(done));
    impl_->begin_input(id);
    return id;
}

VirtualCluster::WorkId VirtualCluster::serve(int node, double core_s, double threads, Action done) {
    const WorkId id = impl_->take(Impl::Stage::kServe, node, std::move(done));
    auto& work = impl_->work(id);
    auto& where = impl_->node(node);
    where.serving.push_back(id);
    work.amount = core_s;
    work.max_rate = threads;
    const FluidNetwork::Use use{where.cores, 1};
    work.activity = impl_->fluid.begin(
        core_s, {&use, 1}, threads * where.own.cpu, [impl = impl_.get(), id] { impl->finish(id); },
        impl_->weight_of(work));
    return id;
}

double VirtualCluster::cancel(WorkId id) {
    const auto* work = impl_->works.find(id);
    if (work == nullptr) {
        return 0;
    }
    const double left = impl_->share_left(*work);
    impl_->queue.cancel(work->event);
    impl_->fluid.cancel(work->activity);
    impl_->forget(id);
    return left;
}

void VirtualCluster::cancel_all(int client) {
    for (const WorkId id : impl_->works.ids()) {
        if (impl_->work(id).client == client) {
            cancel(id);
        }
    }
}

Shares VirtualCluster::shares(PlaceId place) const {
    const auto& where = impl_->place(place);
    Shares all = where.total;
    all.delay_s += where.delay_s;
    return all;
}

VirtualCluster::NodeState VirtualCluster::node(int node) const {
    const auto& where = impl_->node(node);
    return {.shares = where.own,
            .rx_bytes = impl_->fluid.served(where.rx),
            .tx_bytes = impl_->fluid.served(where.tx),
            .cpu_core_s = impl_->fluid.served(where.cores)};
}

std::size_t VirtualCluster::forget_unused() {
    return impl_->transfers->forget_unused();
}

VirtualCluster::WorkId VirtualCluster::scatter(int from_node, const Parts& to, double bytes,
                                               Action done) {
    return impl_->transfers->begin(from_node, to, true, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::gather(const Parts& from, int to_node, double bytes,
                                              Action done) {
    return impl_->transfers->begin(to_node, from, false, bytes, std::move(done));
}

VirtualCluster::WorkId VirtualCluster::all_reduce(const std::vector<int>& nodes, double bytes,
                                                  Action done) {
    return impl_->transfers->begin_all_reduce(nodes, bytes, std::move(done));
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
