#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/coordinator/servers/flow_servers.hpp"

// Other plans, workers that are lost, workers that come back.
namespace cohort {

void ServersFlow::install(SyncPlan plan, std::vector<std::int64_t> batches) {
    if (next_plan_ && batches.empty()) {
        batches = std::move(next_plan_->batches);
    }
    next_plan_ = NextPlan{std::move(plan), std::move(batches)};
    if (!busy_) {
        install_next();
        note_begun();
    }
}

void ServersFlow::install_next() {
    while (next_plan_ && !books_.stopping()) {
        busy_ = true;
        if (books_.engine().plan().group > 1 && !fence_) {
            begin_fence();
            deal();
        }
        const bool now = !fence_ || worked_off();
        if (now) {
            fence_ = false;
            put_in_force(*std::exchange(next_plan_, std::nullopt));
        }
        busy_ = false;
        if (!now) {
            return;
        }
    }
}

/// 1. The engine's fence: nothing that is pending or on its way is lost. 2. Leases for work of
/// another kind come back, but for those that are being worked on: their pushes are applied as they
/// are. Those that only have another size are used up, unless the plan wants fresh ones. 3. Work
/// under the new plan is dealt; in groups when all that is done.
void ServersFlow::put_in_force(NextPlan next) {
    const LeaseShape before = lease_shape();
    const std::vector<std::int64_t> sizes = batches_;
    const Effects effects = books_.engine().install(std::move(next.plan));
    if (!next.batches.empty()) {
        check_invariant(next.batches.size() == batches_.size(), "a batch size for every worker");
        batches_ = std::move(next.batches);
    }
    ++generation_;
    carry_out(effects);
    shape_leases();
    const bool reshaped = !(lease_shape() == before);
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        const bool resized =
            books_.engine().plan().fresh_leases && batches_[at(worker)] != sizes[at(worker)];
        if (live_[at(worker)] && (reshaped || resized)) {
            take_back(worker, ReturnReason::kInterrupted, false);
        }
    }
    fence_ = books_.engine().plan().group > 1;
    books_.installed(books_.engine().plan());
    deal();
}

/// Pushes of it that are complete stay; what is not will never be. Who computes in a group with it
/// cannot go on with that lease.
void ServersFlow::lost(int worker) {
    if (!live_[at(worker)]) {
        return;
    }
    carry_out_event([&] {
        const std::vector<int> partners = group_partners(worker);
        live_[at(worker)] = false;
        released_[at(worker)] = false;
        running_[at(worker)] = false;
        short_[at(worker)] = false;
        for (const PushId& push : arrivals_.drop(worker)) {
            discard(push);
        }
        const NodeDesk::Orders sums = nodes_.lost(worker);
        send_node_orders(sums);
        ++generation_;
        if (books_.stopping()) {  // all leases come back; nobody waits for those of the group
            for (const int partner : partners) {
                released_[at(partner)] = false;
            }
            return;
        }
        books_.leases().set_live(worker, false);
        carry_out(books_.engine().lost(worker, sums.stranded));
        for (const int partner : partners) {
            take_back(partner, ReturnReason::kVoidRound, true);
        }
        if (books_.engine().plan().group > 1) {
            begin_fence();
        }
        deal();
    });
}

/// Servers wait for no sum of it: what they still have to save comes after their last update.
void ServersFlow::lost_at_the_end(int worker) {
    if (worker >= 0 && live_[at(worker)]) {
        live_[at(worker)] = false;
        send_node_orders(nodes_.lost_at_the_end(worker));
    }
}

/// It begins anew, with parameters of the current version.
void ServersFlow::joined(int worker) {
    if (live_[at(worker)] || books_.stopping()) {
        return;
    }
    carry_out_event([&] {
        UpdateEngine& engine = books_.engine();
        live_[at(worker)] = true;
        nodes_.joined(worker);
        set_idle(worker, true);
        ++generation_;
        books_.leases().set_live(worker, true);
        const Effects effects = engine.joined(worker);
        send_worker(worker, MessageKind::kJoin,
                    JoinOrder{.incarnation = engine.incarnation(worker),
                              .version = engine.version(),
                              .leases_up_to = books_.leases().newest()});
        for (const NodeFreeOrder& order : frees_) {
            if (order.push.worker == worker) {
                send_order(links_, {links_.map.rank_of_worker(worker), Port::kNode},
                           NodeMessage::kFree, order);
            }
        }
        std::erase_if(frees_,
                      [worker](const NodeFreeOrder& order) { return order.push.worker == worker; });
        carry_out(effects);
        if (engine.plan().group > 1) {
            begin_fence();
        }
        deal();
    });
}

/// Live workers that hold a lease which is worked on together with this one.
std::vector<int> ServersFlow::group_partners(int worker) const {
    const std::int32_t rank = links_.map.rank_of_worker(worker);
    std::vector<int> partners;
    for (int other = 0; other < links_.map.workers() && !work_.empty(); ++other) {
        const std::vector<std::uint64_t> leases = books_.leases().held_leases(other);
        const bool together = std::any_of(leases.begin(), leases.end(), [&](std::uint64_t lease) {
            const WorkOrder* work = work_of(lease);
            return work != nullptr &&
                   std::find(work->group.begin(), work->group.end(), rank) != work->group.end();
        });
        if (together && other != worker && live_[at(other)]) {
            partners.push_back(other);
        }
    }
    return partners;
}

bool ServersFlow::in_group_round(int worker) const {
    if (!live_[at(worker)] || !released_[at(worker)]) {
        return false;
    }
    const std::vector<std::uint64_t> leases = books_.leases().held_leases(worker);
    const WorkOrder* work = leases.empty() ? nullptr : work_of(leases.front());
    return work != nullptr && !work->group.empty();
}

/// Workers of a group wait for each other: all finish a round that one of them may have begun.
bool ServersFlow::quiet() const {
    for (int worker = 0; worker < links_.map.workers() && !work_.empty(); ++worker) {
        if (in_group_round(worker)) {
            return false;
        }
    }
    return true;
}

}  // namespace cohort
