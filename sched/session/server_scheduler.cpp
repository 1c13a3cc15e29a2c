#include "sched/session/server_scheduler.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Engine and leases agree about what became of all samples. Errors: std::logic_error.
void check_accounts(const EngineAccounts& engine, SampleAccounts leases) {
    bool same = engine.leased == leases.leased && engine.applied == leases.applied &&
                engine.outstanding == leases.outstanding;
    for (std::size_t i = 0; i < kReturnReasons; ++i) {
        const auto reason = static_cast<ReturnReason>(i);
        same = same && engine.returned_for(reason) == returned_for(leases, reason);
    }
    check_invariant(same, "the accounts of engine and leases agree");
}

/// Tells a worker which of its leases return.
void revoke_returned(ServerOrders& orders, int worker, const std::vector<Effect>& effects) {
    std::vector<std::uint64_t> leases;
    for (const Effect& effect : effects) {
        const auto* const lease = std::get_if<ReturnLease>(&effect);
        if (lease != nullptr && lease->worker == worker) {
            leases.push_back(lease->lease);
        }
    }
    if (!leases.empty()) {
        orders.revoke(worker, leases);
    }
}

}  // namespace

ServerScheduler::ServerScheduler(TrainingSession& session, EffectHandler& handler,
                                 ServerOrders& orders, Dealing dealing, std::uint64_t seed,
                                 std::int64_t epoch_samples)
    : session_(session),
      orders_(orders),
      leases_(session, handler, orders, dealing == Dealing::kAhead,
              ValidationSampler(seed, epoch_samples, session.options().batch)) {
}

/// Does what an event asks for; a plan that was asked for meanwhile follows.
template <class Event>
void ServerScheduler::run(const Event& event) {
    busy_ = true;
    event();
    busy_ = false;
    install_next();
    move_next();
    if (!session_.stopping()) {
        leases_.workers().begin_iterations();
    }
    if (leases_.take_dealt()) {
        orders_.flush();
    }
}

void ServerScheduler::begin() {
    session_.engine().set_noise_scale(session_.options().noise_scale);
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        release(worker);
    }
    leases_.shape();
}

bool ServerScheduler::arrived(int worker) {
    leases_.workers().arrived(worker);
    return !session_.stopping();
}

void ServerScheduler::push(const PushTicket& ticket) {
    run([&] {
        effects().push(ticket);
        leases_.shorten();
        leases_.deal();
    });
}

void ServerScheduler::deal() {
    run([this] { leases_.deal(); });
}

void ServerScheduler::install(PlanChange change) {
    leases_.fence().wait(std::move(change));
    if (!busy_) {
        run([] {});
    }
}

void ServerScheduler::move() {
    if (!moving()) {
        leases_.fence().set_move(PlanFence::Move::kWanted);
        if (!busy_) {
            run([] {});
        }
    }
}

void ServerScheduler::moved() {
    leases_.fence().set_move(PlanFence::Move::kNone);
    run([this] { leases_.deal(); });
}

/// Pushes of the worker that are complete stay; what is not complete will never be. Workers that
/// compute in a group with it cannot go on with that lease.
void ServerScheduler::worker_lost(int worker, const std::vector<PushId>& stranded) {
    run([&] {
        const std::vector<int> partners = leases_.planner().partners(worker);
        leases_.set_live(worker, false);
        if (session_.stopping()) {  // all leases return; nobody waits for those of the group
            for (const int partner : partners) {
                leases_.workers().arrived(partner);
            }
            return;
        }
        effects().carry_out(session_.engine().lost(worker, stranded));
        for (const int partner : partners) {
            leases_.take_back(partner, ReturnReason::kVoidRound, true);
        }
        deal_anew();
    });
}

/// The worker begins anew, with parameters of the current version.
void ServerScheduler::worker_joined(int worker) {
    run([&] {
        leases_.set_live(worker, true);
        const std::vector<Effect> joined = session_.engine().joined(worker);
        orders_.joins(worker);
        effects().carry_out(joined);
        deal_anew();
    });
}

std::vector<PushId> ServerScheduler::close() {
    std::vector<PushId> unused;
    for (const auto& [push, held] : effects().held()) {
        unused.push_back(push);
    }
    effects().forget_pushes();
    (void)session_.engine().stop();
    check_accounts(session_.engine().accounts(), session_.leases().open().part_accounts());
    return unused;
}

/// Members of groups are others than before: they begin together.
void ServerScheduler::deal_anew() {
    if (session_.engine().plan().group > 1) {
        leases_.begin_fence();
    }
    leases_.deal();
}

void ServerScheduler::install_next() {
    PlanFence& fence = leases_.fence();
    while (fence.waiting() && !session_.stopping()) {
        busy_ = true;
        if (session_.engine().plan().group > 1 && !fence.closed()) {
            leases_.begin_fence();
            leases_.deal();
        }
        const bool now = !fence.closed() || fence.drained();
        if (now) {
            leases_.install(fence.take());
        }
        busy_ = false;
        if (!now) {
            return;
        }
    }
}

/// 1. Leases that nobody has begun return. 2. Those begun are completed; who has no lease is idle,
/// and nobody waits for it. 3. Shards move.
void ServerScheduler::move_next() {
    PlanFence& fence = leases_.fence();
    if (fence.move() != PlanFence::Move::kWanted || session_.stopping()) {
        return;
    }
    busy_ = true;
    if (!fence.closed()) {
        leases_.begin_fence();
    }
    leases_.deal();
    busy_ = false;
    if (fence.drained() && !session_.stopping()) {
        fence.set_move(PlanFence::Move::kUnderWay);
        orders_.move_shards();
    }
}

// ----------------------------------------------------------------------------------------- leases

ServerLeases::ServerLeases(TrainingSession& session, EffectHandler& handler, ServerOrders& orders,
                           bool ahead, const ValidationSampler& validation)
    : session_(session),
      orders_(orders),
      ahead_(ahead),
      effects_(session, handler, [this](const Effect& effect, bool held) { follow(effect, held); }),
      planner_(session, [&orders](int worker) { return orders.stages(worker); }),
      validation_(validation),
      workers_(session),
      fence_(session),
      shortened_(at(session.options().workers), false) {
}

/// Of one that is gone nothing more comes.
void ServerLeases::set_live(int worker, bool live) {
    if (live) {
        (void)workers_.set_idle(worker, true);
    } else {
        workers_.arrived(worker);
        workers_.served(worker);
        shortened_[at(worker)] = false;
    }
    planner_.set_live(worker, live);
}

/// What an effect means for leases and those who wait for some.
void ServerLeases::follow(const Effect& effect, bool held) {
    if (const auto* fire = std::get_if<Fire>(&effect)) {
        for (const Fire::Release& one : fire->releases) {
            workers_.released(one.worker);
        }
        validation_.decided();
    } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
        workers_.released(one->worker);
    } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
        workers_.released(interrupt->worker);
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

void ServerLeases::deal() {
    if (session_.stopping()) {
        return;
    }
    dealt_ = true;
    while (!session_.stopping() && deal_once()) {
    }
    deal_validation();
}

/// @return true when something happened that may have set leases or workers free
bool ServerLeases::deal_once() {
    UpdateEngine& engine = session_.engine();
    std::vector<DealtLease> leases;
    if (!fence_.holds()) {
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
std::vector<DealtLease> ServerLeases::deal_to_released() {
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
bool ServerLeases::announce_idle() {
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

std::vector<int> ServerLeases::without_lease() {
    if (!ahead_) {
        return workers_.take_wanting();
    }
    std::vector<int> workers;
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        if (planner_.live(worker) && session_.leases().open().unpushed(worker) == 0) {
            workers.push_back(worker);
        }
    }
    return workers;
}

void ServerLeases::deal_validation() {
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

void ServerLeases::shape() {
    planner_.shape_leases();
    validation_.set_every(session_.engine().plan().validate_every);
}

void ServerLeases::shorten() {
    for (int worker = 0; ahead_ && worker < session_.options().workers; ++worker) {
        const bool needed = planner_.live(worker) && session_.engine().needs_short_lease(worker) &&
                            !session_.stopping();
        if (needed && !shortened_[at(worker)]) {
            take_back(worker, ReturnReason::kInterrupted, true);
            session_.leases().shorten_next(worker, short_lease_of(planner_.batches()[at(worker)]));
        }
        shortened_[at(worker)] = needed;
    }
}

void ServerLeases::take_back(int worker, ReturnReason reason, bool begun) {
    const std::vector<Effect> effects = session_.engine().take_back(worker, reason, begun);
    revoke_returned(orders_, worker, effects);
    effects_.carry_out(effects);
}

bool ServerLeases::quiet() const {
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        if (planner_.live(worker) && workers_.has_parameters(worker) && planner_.in_group(worker)) {
            return false;
        }
    }
    return true;
}

/// Leases return in the order in which they were dealt, not worker by worker: dealt again, those of
/// a round are the same as without the fence.
void ServerLeases::begin_fence() {
    fence_.close();
    std::vector<Effect> returns;
    std::vector<Effect> others;
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        if (!planner_.live(worker)) {
            continue;
        }
        const std::vector<Effect> effects =
            session_.engine().take_back(worker, ReturnReason::kInterrupted, false);
        const auto first_other = std::ranges::find_if(effects, [worker](const Effect& effect) {
            const auto* const lease = std::get_if<ReturnLease>(&effect);
            return lease == nullptr || lease->worker != worker;
        });
        revoke_returned(orders_, worker, effects);
        returns.insert(returns.end(), effects.begin(), first_other);
        others.insert(others.end(), first_other, effects.end());
    }
    std::ranges::sort(returns, {},
                      [](const Effect& effect) { return std::get<ReturnLease>(effect).lease; });
    effects_.carry_out(returns);
    effects_.carry_out(others);
}

/// 1. The engine's fence: nothing that is pending or in flight is lost. 2. Leases for work of
/// another kind return, but for those that are being computed: their pushes are applied as they
/// are. Those that only have another size are used up, unless the plan wants fresh ones. 3. Work
/// under the new plan is dealt; in groups when all that is done.
void ServerLeases::install(PlanChange next) {
    const LeaseShape before = planner_.shape();
    const std::vector<std::int64_t> sizes = planner_.batches();
    orders_.installing(next.plan);
    const std::vector<Effect> effects = session_.engine().install(std::move(next.plan));
    if (!next.batches.empty()) {
        planner_.set_batches(std::move(next.batches));
    }
    planner_.new_generation();
    effects_.carry_out(effects);
    shape();
    const SyncPlan& plan = session_.engine().plan();
    const bool reshaped = !(planner_.shape() == before);
    for (int worker = 0; worker < session_.options().workers; ++worker) {
        const bool resized = planner_.batches()[at(worker)] != sizes[at(worker)];
        if (ahead_ && planner_.live(worker) && (reshaped || (plan.fresh_leases && resized))) {
            take_back(worker, ReturnReason::kInterrupted, false);
        } else if (!ahead_ && (reshaped || plan.fresh_leases)) {
            session_.leases().resize_next(worker);
        }
    }
    if (plan.group > 1) {
        fence_.close();
    }
    session_.installed();
    deal();
}

}  // namespace cohort
