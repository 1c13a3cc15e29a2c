#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"
#include "train/coordinator/servers/flow_servers.hpp"

// Leases: who gets some, what is to be done with them, which come back.
namespace cohort {

/// Leases for those who need some; who gets none is idle.
void ServersFlow::deal() {
    while (!books_.stopping() && deal_once()) {
    }
    deal_validation();
}

/// @return true when something happened that may have set leases free
bool ServersFlow::deal_once() {
    UpdateEngine& engine = books_.engine();
    const bool group_plan_waits = next_plan_ && engine.plan().group > 1;
    fence_ = fence_ && (group_plan_waits || !worked_off());
    std::vector<LeaseDesk::Dealt> leases;
    if (!fence_) {
        leases = books_.leases().top_up();
    }
    give_work(leases);
    for (const LeaseDesk::Dealt& dealt : leases) {
        if (set_idle(dealt.worker, false)) {
            carry_out(engine.resumed(dealt.worker));
        }
        engine.leased(dealt.worker, dealt.order.lease, dealt.order.count);
        send_worker(dealt.worker, MessageKind::kLease, dealt.order);
        epoch_ = dealt.order.epoch;
    }
    bool again = false;
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        if (live_[at(worker)] && unpushed(worker) == 0 && !set_idle(worker, true)) {
            const Effects effects = engine.idle(worker);
            again = again || !effects.empty();
            carry_out(effects);
        }
    }
    return again;
}

std::size_t ServersFlow::unpushed(int worker) const {
    const auto pushed = std::count_if(held_.begin(), held_.end(), [worker](const auto& held) {
        return held.first.worker == worker;
    });
    return books_.leases().held(worker) - static_cast<std::size_t>(pushed);
}

/// Who is released starts on its oldest lease that it has not pushed.
void ServersFlow::note_begun() {
    for (int worker = 0; worker < links_.map.workers() && !books_.stopping(); ++worker) {
        if (!released_[at(worker)] || running_[at(worker)] || unpushed(worker) == 0) {
            continue;
        }
        running_[at(worker)] = true;
        const std::vector<std::uint64_t> leases = books_.leases().held_leases(worker);
        const std::size_t pushed = leases.size() - unpushed(worker);
        books_.begun(worker, books_.leases().samples_of(leases.at(pushed)));
    }
}

bool ServersFlow::set_idle(int worker, bool idle) {
    const bool was = idle_[at(worker)];
    idle_[at(worker)] = idle;
    return was;
}

void ServersFlow::deal_validation() {
    if (books_.stopping() || !validation_.due()) {
        return;
    }
    std::vector<bool> may = live_;
    for (std::size_t worker = 0; worker < may.size(); ++worker) {
        may[worker] = live_[worker] && !idle_[worker];
    }
    if (const auto dealt = validation_.deal(may, epoch_)) {
        send_worker(dealt->worker, MessageKind::kLease,
                    LeaseOrder{.lease = dealt->lease,
                               .epoch = dealt->epoch,
                               .position = dealt->position,
                               .count = dealt->count,
                               .work = {},
                               .validation = true});
    }
}

/// What is to be done with new leases.
void ServersFlow::give_work(std::vector<LeaseDesk::Dealt>& dealt) {
    const SyncPlan& plan = books_.engine().plan();
    for (auto& [worker, order] : dealt) {
        order.staged = nodes_.stages(worker, plan);
        order.halves = gradients_.halve(plan, order.count, wish());
    }
    if (plan.work == Work::kGradient) {
        return;
    }
    const double lr = learning_rate(plan.lr_scale);
    for (auto& [worker, order] : dealt) {
        order.work = {.work = plan.work,
                      .steps = local_steps_of(order.count, batches_[at(worker)], plan),
                      .lr = lr,
                      .group = {},
                      .generation = generation_};
    }
    if (plan.group > 1) {
        form_groups(dealt);
    }
    for (const auto& [worker, order] : dealt) {
        work_[order.lease] = order.work;
    }
}

/// The n-th new lease of each member of a group is worked on together, in equally many steps; who
/// gets no n-th lease is left out.
void ServersFlow::form_groups(std::vector<LeaseDesk::Dealt>& dealt) {
    for (const std::vector<int>& group : averaging_groups(books_.engine().plan(), live_)) {
        std::vector<std::vector<LeaseOrder*>> turns;
        std::vector<std::vector<std::int32_t>> ranks;
        for (const int worker : group) {
            std::size_t turn = 0;
            for (auto& one : dealt) {
                if (one.worker == worker) {
                    turns.resize(std::max(turns.size(), turn + 1));
                    ranks.resize(turns.size());
                    turns[turn].push_back(&one.order);
                    ranks[turn].push_back(links_.map.rank_of_worker(worker));
                    ++turn;
                }
            }
        }
        for (std::size_t turn = 0; turn < turns.size(); ++turn) {
            const auto& orders = turns[turn];
            const LeaseOrder* least = *std::min_element(
                orders.begin(), orders.end(), [](const LeaseOrder* a, const LeaseOrder* b) {
                    return a->work.steps < b->work.steps;
                });
            const std::int32_t steps = least->work.steps;
            for (LeaseOrder* order : orders) {
                order->work.steps = steps;
                order->work.group = orders.size() > 1 ? ranks[turn] : std::vector<std::int32_t>();
            }
        }
    }
}

LeaseShape ServersFlow::lease_shape() const {
    const SyncPlan& plan = books_.engine().plan();
    std::vector<bool> staged(live_.size());
    for (std::size_t worker = 0; worker < staged.size(); ++worker) {
        staged[worker] = nodes_.stages(static_cast<int>(worker), plan);
    }
    return lease_shape_of(plan, live_, std::move(staged));
}

/// New leases are as the plan in force wants them.
void ServersFlow::shape_leases() {
    const SyncPlan& plan = books_.engine().plan();
    std::vector<std::int64_t> samples = batches_;
    const std::int64_t steps = steps_per_push(plan);
    for (std::int64_t& count : samples) {
        count = std::max<std::int64_t>(count, 1) * steps;
    }
    books_.leases().set_batches(samples);
    books_.leases().set_ahead(leases_ahead(plan), !is_synchronous(plan));
    validation_.set_every(plan.validate_every);
}

/// Who was too late twice in a row gets a lease that it can finish in time.
void ServersFlow::shorten() {
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        const bool needed =
            live_[at(worker)] && books_.engine().needs_short_lease(worker) && !books_.stopping();
        if (needed && !short_[at(worker)]) {
            take_back(worker, ReturnReason::kInterrupted, true);
            books_.leases().shorten_next(worker, short_lease_of(batches_[at(worker)]));
        }
        short_[at(worker)] = needed;
    }
}

/// Nobody holds a lease that was not applied: all may start at once.
bool ServersFlow::worked_off() const {
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        if (live_[at(worker)] && unpushed(worker) > 0) {
            return false;
        }
    }
    return books_.engine().pending() == 0;
}

void ServersFlow::begin_fence() {
    fence_ = true;
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        if (live_[at(worker)]) {
            take_back(worker, ReturnReason::kInterrupted, false);
        }
    }
}

/// @param begun  also the lease that it works on
void ServersFlow::take_back(int worker, ReturnReason reason, bool begun) {
    const Effects effects = books_.engine().take_back(worker, reason, begun);
    RevokeOrder order;
    for (const Effect& effect : effects) {
        if (const auto* lease = std::get_if<ReturnLease>(&effect);
            lease != nullptr && lease->worker == worker) {
            order.leases.push_back(lease->lease);
        }
    }
    if (!order.leases.empty()) {
        send_worker(worker, MessageKind::kRevoke, order);
        if (begun) {
            running_[at(worker)] = false;
            books_.stopped(worker);
        }
    }
    carry_out(effects);
}

const WorkOrder* ServersFlow::work_of(std::uint64_t lease) const {
    const auto found = work_.find(lease);
    return found == work_.end() ? nullptr : &found->second;
}

}  // namespace cohort
