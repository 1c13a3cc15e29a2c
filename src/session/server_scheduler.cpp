#include "session/server_scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace cohort {

ServerScheduler::ServerScheduler(TrainingSession& session, EffectHandler& handler,
                                 ServerOrders& orders, Dealing dealing, std::uint64_t seed,
                                 std::int64_t epoch_samples)
    : session_(session),
      orders_(orders),
      ahead_(dealing == Dealing::kAhead),
      effects_(session, handler, [this](const Effect& effect, bool held) { follow(effect, held); }),
      planner_(session, [&orders](int worker) { return orders.stages(worker); }),
      validation_(seed, epoch_samples, session.options().batch),
      workers_(session),
      shortened_(at(session.options().workers), false) {
}

/// Does what an event asks for; a plan that was asked for meanwhile follows.
template <class Event>
void ServerScheduler::run(const Event& event) {
    busy_ = true;
    event();
    busy_ = false;
    install_next();
    if (!session_.stopping()) {
        workers_.begin_iterations();
    }
    if (std::exchange(flush_, false)) {
        orders_.flush();
    }
}

void ServerScheduler::begin() {
    session_.engine().set_noise_scale(session_.options().noise_scale);
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        release(worker);
    }
    shape_leases();
}

bool ServerScheduler::arrived(int worker) {
    workers_.arrived(worker);
    return !session_.stopping();
}

void ServerScheduler::push(const SessionPush& push) {
    run([&] {
        effects_.push(push);
        shorten();
        deal_leases();
    });
}

void ServerScheduler::deal() {
    run([this] { deal_leases(); });
}

void ServerScheduler::install(PlanChange change) {
    if (next_plan_ && change.batches.empty()) {
        change.batches = std::move(next_plan_->batches);
    }
    next_plan_ = std::move(change);
    if (!busy_) {
        run([] {});
    }
}

/// Pushes of the worker that are complete stay; what is not complete will never be. Workers that
/// compute in a group with it cannot go on with that lease.
void ServerScheduler::worker_lost(int worker, const std::vector<PushId>& stranded) {
    run([&] {
        const std::vector<int> partners = planner_.partners(worker);
        workers_.arrived(worker);
        workers_.served(worker);
        shortened_[at(worker)] = false;
        planner_.set_live(worker, false);
        if (session_.stopping()) {  // all leases return; nobody waits for those of the group
            for (const int partner : partners) {
                workers_.arrived(partner);
            }
            return;
        }
        effects_.carry_out(session_.engine().lost(worker, stranded));
        for (const int partner : partners) {
            take_back(partner, ReturnReason::kVoidRound, true);
        }
        if (session_.engine().plan().group > 1) {
            begin_fence();
        }
        deal_leases();
    });
}

/// The worker begins anew, with parameters of the current version.
void ServerScheduler::worker_joined(int worker) {
    run([&] {
        (void)workers_.set_idle(worker, true);
        planner_.set_live(worker, true);
        const std::vector<Effect> effects = session_.engine().joined(worker);
        orders_.joins(worker);
        effects_.carry_out(effects);
        if (session_.engine().plan().group > 1) {
            begin_fence();
        }
        deal_leases();
    });
}

std::vector<PushId> ServerScheduler::close() {
    std::vector<PushId> unused;
    for (const auto& [push, held] : effects_.held()) {
        unused.push_back(push);
    }
    effects_.forget_pushes();
    (void)session_.engine().stop();
    session_.check_accounts();
    return unused;
}

bool ServerScheduler::quiet() const {
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        if (live(worker) && workers_.has_parameters(worker) && planner_.in_group(worker)) {
            return false;
        }
    }
    return true;
}

/// What an effect means for leases and those who wait for some.
void ServerScheduler::follow(const Effect& effect, bool held) {
    if (const auto* fire = std::get_if<Fire>(&effect)) {
        for (const Fire::Release& one : fire->releases) {
            release(one.worker);
        }
        validation_.decided();
    } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
        release(one->worker);
    } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
        release(interrupt->worker);
    } else if (const auto* lease = std::get_if<ReturnLease>(&effect)) {
        workers_.returns(lease->worker, lease->lease);
    } else {
        validation_.decided();
        if (held && session_.engine().plan().group > 1) {
            begin_fence();  // the worker is released before the others of its group
            take_back(std::get<Refuse>(effect).push.worker, ReturnReason::kVoidRound, true);
        }
    }
}

// ----------------------------------------------------------------------------------------- leases

/// Leases for those who need some; who gets none is idle.
void ServerScheduler::deal_leases() {
    if (session_.stopping()) {
        return;
    }
    flush_ = true;
    while (!session_.stopping() && deal_once()) {
    }
    deal_validation();
}

/// @return true when something happened that may have set leases or workers free
bool ServerScheduler::deal_once() {
    UpdateEngine& engine = session_.engine();
    const bool group_plan_waits = next_plan_ && engine.plan().group > 1;
    fence_ = fence_ && (group_plan_waits || !drained());
    std::vector<DealtLease> leases;
    if (!fence_) {
        leases = ahead_ ? session_.leases().top_up() : deal_to_released();
    }
    planner_.plan_work(leases);
    orders_.prepare(leases);
    for (const auto& [worker, order] : leases) {
        workers_.served(worker);
        if (workers_.set_idle(worker, false)) {
            effects_.carry_out(engine.resumed(worker));
        }
        engine.leased(worker, order.lease, order.count);
        epoch_ = order.epoch;
    }
    orders_.deal(leases);
    return announce_idle();
}

/// One lease for each worker that was released and has none, those whom nobody waits for first.
std::vector<DealtLease> ServerScheduler::deal_to_released() {
    std::vector<DealtLease> dealt;
    for (const std::vector<int>& some : workers_.wanting()) {
        for (const int worker : some) {
            if (session_.engine().needs_short_lease(worker)) {
                session_.leases().shorten_next(worker,
                                               short_lease_of(planner_.batches()[at(worker)]));
            }
            std::optional<LeaseOrder> order = session_.leases().deal_one(worker);
            if (!order) {
                break;
            }
            dealt.push_back({worker, *std::move(order)});
        }
    }
    return dealt;
}

/// Tells the engine who has no lease. @return true when that had effects
bool ServerScheduler::announce_idle() {
    bool effective = false;
    for (const int worker : without_lease()) {
        if (!workers_.set_idle(worker, true)) {
            const std::vector<Effect> effects = session_.engine().idle(worker);
            effective = effective || !effects.empty();
            effects_.carry_out(effects);
        }
    }
    return effective;
}

std::vector<int> ServerScheduler::without_lease() {
    if (!ahead_) {
        return workers_.take_wanting();
    }
    std::vector<int> workers;
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        if (live(worker) && session_.leases().open().unpushed(worker) == 0) {
            workers.push_back(worker);
        }
    }
    return workers;
}

void ServerScheduler::deal_validation() {
    if (session_.stopping() || !validation_.due()) {
        return;
    }
    std::vector<bool> may = planner_.live();
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        may[at(worker)] = may[at(worker)] && !workers_.idle(worker) && orders_.may_validate(worker);
    }
    if (const auto dealt = validation_.deal(may, epoch_)) {
        orders_.deal_validation(*dealt);
    }
}

/// New leases are as the plan in force wants them.
void ServerScheduler::shape_leases() {
    planner_.shape_leases();
    validation_.set_every(session_.engine().plan().validate_every);
}

/// Who was too late twice in a row gets a lease that it can finish in time, in place of those that
/// it holds.
void ServerScheduler::shorten() {
    for (int worker = 0; ahead_ && worker < session_.options().workers; ++worker) {
        const bool needed =
            live(worker) && session_.engine().needs_short_lease(worker) && !session_.stopping();
        if (needed && !shortened_[at(worker)]) {
            take_back(worker, ReturnReason::kInterrupted, true);
            session_.leases().shorten_next(worker, short_lease_of(planner_.batches()[at(worker)]));
        }
        shortened_[at(worker)] = needed;
    }
}

/// @param begun  also the lease that the worker computes on
void ServerScheduler::take_back(int worker, ReturnReason reason, bool begun) {
    const std::vector<Effect> effects = session_.engine().take_back(worker, reason, begun);
    std::vector<std::uint64_t> leases;
    for (const Effect& effect : effects) {
        const auto* const lease = std::get_if<ReturnLease>(&effect);
        if (lease != nullptr && lease->worker == worker) {
            leases.push_back(lease->lease);
        }
    }
    if (!leases.empty()) {
        orders_.revoke(worker, leases);
    }
    effects_.carry_out(effects);
}

// ------------------------------------------------------------------------------ plans and fences

/// Nobody holds a lease that was not applied: all may start at once.
bool ServerScheduler::drained() {
    return session_.leases().open().unpushed() == 0 && session_.engine().pending() == 0;
}

void ServerScheduler::begin_fence() {
    fence_ = true;
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        if (live(worker)) {
            take_back(worker, ReturnReason::kInterrupted, false);
        }
    }
}

void ServerScheduler::install_next() {
    while (next_plan_ && !session_.stopping()) {
        busy_ = true;
        if (session_.engine().plan().group > 1 && !fence_) {
            begin_fence();
            deal_leases();
        }
        const bool now = !fence_ || drained();
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

/// 1. The engine's fence: nothing that is pending or in flight is lost. 2. Leases for work of
/// another kind return, but for those that are being computed: their pushes are applied as they
/// are. Those that only have another size are used up, unless the plan wants fresh ones. 3. Work
/// under the new plan is dealt; in groups when all that is done.
void ServerScheduler::put_in_force(PlanChange next) {
    const LeaseShape before = planner_.shape();
    const std::vector<std::int64_t> sizes = planner_.batches();
    orders_.installing(next.plan);
    const std::vector<Effect> effects = session_.engine().install(std::move(next.plan));
    if (!next.batches.empty()) {
        planner_.set_batches(std::move(next.batches));
    }
    planner_.new_generation();
    effects_.carry_out(effects);
    shape_leases();
    const SyncPlan& plan = session_.engine().plan();
    const bool reshaped = !(planner_.shape() == before);
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        const bool resized = planner_.batches()[at(worker)] != sizes[at(worker)];
        if (ahead_ && live(worker) && (reshaped || (plan.fresh_leases && resized))) {
            take_back(worker, ReturnReason::kInterrupted, false);
        } else if (!ahead_ && (reshaped || plan.fresh_leases)) {
            session_.leases().resize_next(worker);
        }
    }
    fence_ = plan.group > 1;
    session_.installed();
    deal_leases();
}

}  // namespace cohort
