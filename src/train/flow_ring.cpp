#include <fmt/format.h>

#include <deque>
#include <variant>

#include "cohort/core/error.hpp"
#include "protocol_ring.hpp"
#include "update_flow.hpp"

namespace cohort {
namespace {

/// Rounds that members know of: the one they work on, and the one they start next without asking.
constexpr std::size_t kGrantedAhead = 2;

/// The coordinator's side of a ring:
///  1. leases are dealt; a grant names each member's next one and fixes weights, learning rate and
///     what follows the round, while the round before it still runs
///  2. the members sum, update and go on; worker 0 reports the tails
///  3. the engine gets the pushes, its fire is the update that the members have already applied; a
///     round with a tail that is not finite is void and its leases come back
class RingFlow final : public UpdateFlow {
public:
    RingFlow(Links links, const JobParts& parts, RunBooks& books)
        : links_(links),
          parts_(parts),
          books_(books),
          idle_(static_cast<std::size_t>(links.map.workers()), false),
          pushes_(static_cast<std::size_t>(links.map.workers()), 0) {}

    void begin(const BeginOrder& order, const UpdateExtras& extras) override {
        for (int worker = 0; worker < links_.map.workers(); ++worker) {
            send(worker, MessageKind::kBegin, order);
        }
        if (extras.evaluation != 0 || !extras.snapshot.empty()) {
            request(extras);
        }
        go_on();
    }

    bool handle(const Message& message) override {
        if (static_cast<MessageKind>(message.kind) != MessageKind::kRoundDone) {
            return false;
        }
        const auto report = decode<RoundReport>(message.body);
        check_invariant(!granted_.empty() && granted_.front().order.round == report.round,
                        "rounds end in the order of their grants");
        const Granted granted = std::move(granted_.front());
        granted_.pop_front();
        settle(granted, report);
        go_on();
        return true;
    }

    int request(const UpdateExtras& extras) override {
        RoundOrder order;
        ask(order, extras);
        for (int worker = 0; worker < links_.map.workers(); ++worker) {
            send(worker, MessageKind::kRound, order);
        }
        return links_.map.workers();
    }

    void install(SyncPlan /*plan*/, std::vector<std::int64_t> /*batches*/) override {
        check_invariant(false, "not built yet");
    }
    void lost(int /*worker*/) override { check_invariant(false, "not built yet"); }
    void joined(int /*worker*/) override { check_invariant(false, "not built yet"); }

    [[nodiscard]] bool quiet() const override { return granted_.empty(); }

    /// The members' own waits say whom a round waits for.
    [[nodiscard]] std::vector<int> awaited() const override { return {}; }

private:
    struct Granted {
        RoundOrder order;
        UpdateExtras extras;
        std::uint32_t epoch = 0;
        std::int64_t samples = 0;
    };

    template <class Kind, class Body>
    void send(int worker, Kind kind, const Body& body) {
        send_order(links_, {links_.map.rank_of_worker(worker), Port::kWorker}, kind, body);
    }

    static void ask(RoundOrder& order, const UpdateExtras& extras) {
        order.evaluate = extras.evaluation != 0;
        order.evaluation = extras.evaluation;
        order.snapshot = extras.snapshot;
    }

    void go_on() {
        if (books_.stopping()) {
            return;
        }
        for (const LeaseDesk::Dealt& dealt : books_.leases().top_up()) {
            send(dealt.worker, MessageKind::kLease, dealt.order);
        }
        while (granted_.size() < kGrantedAhead && grant()) {
        }
    }

    /// False when no worker has a lease left.
    bool grant() {
        Granted next;
        for (int worker = 0; worker < links_.map.workers(); ++worker) {
            const auto lease = books_.leases().claim(worker).value_or(LeaseOrder());
            next.order.members.push_back(
                {.worker = worker, .lease = lease.lease, .samples = lease.count});
            next.epoch = next.samples == 0 ? lease.epoch : next.epoch;
            next.samples += lease.count;
        }
        if (next.samples == 0) {
            return false;
        }
        std::int64_t before = books_.samples_applied();
        for (const Granted& earlier : granted_) {
            before += earlier.samples;
        }
        next.order.round = ++rounds_;
        next.order.fraction =
            static_cast<double>(next.samples) / static_cast<double>(parts_.reference_batch);
        next.order.lr = parts_.schedule.lr(parts_.options.lr, before);
        next.extras = books_.decide(before + next.samples);
        ask(next.order, next.extras);
        for (const RoundMember& member : next.order.members) {
            send(member.worker, MessageKind::kRound, next.order);
        }
        granted_.push_back(std::move(next));
        return true;
    }

    void settle(const Granted& granted, const RoundReport& report) {
        BatchResult result;
        double norms = 0;
        int members = 0;
        std::string because;
        for (std::size_t i = 0; i < report.members.size(); ++i) {
            const RoundMemberReport& member = report.members[i];
            const std::string reason = non_finite_reason(member.loss_sum, member.finite);
            if (because.empty() && !reason.empty()) {
                because =
                    report.members.size() == 1
                        ? reason
                        : fmt::format("worker {}: {}", granted.order.members[i].worker, reason);
            }
            norms += member.samples > 0 ? member.gradient_norm : 0;
            members += member.samples > 0 ? 1 : 0;
            result.samples += member.samples;
            result.loss_sum += member.loss_sum;
            result.correct += member.correct;
        }
        check_invariant(result.samples == granted.samples, "members trained what was granted");
        books_.spent(report.members.front().compute_s, report.exposed_s, report.exchange_s);
        if (because.empty()) {
            fire(granted, result, norms / members);
        } else {
            void_round(granted, report);
            books_.drop(result, because);
        }
        if (report.version != books_.engine().version()) {
            fail<PeerError>({.where = fmt::format("ring round {}", report.round),
                             .what = "the members are at another version than the coordinator",
                             .expected = std::to_string(books_.engine().version()),
                             .got = std::to_string(report.version)});
        }
        books_.taken(granted.extras, links_.map.workers());
    }

    /// Feeds the pushes of the round to the engine, which must fire exactly once.
    void fire(const Granted& granted, const BatchResult& result, double gradient_norm) {
        UpdateEngine& engine = books_.engine();
        UpdateRecord update{.fraction = granted.order.fraction,
                            .learning_rate = granted.order.lr,
                            .epoch = granted.epoch,
                            .result = result,
                            .gradient_norm = gradient_norm};
        const std::int64_t computed_on = engine.version();
        for (const RoundMember& member : granted.order.members) {
            tell_engine(member);
        }
        for (const RoundMember& member : granted.order.members) {
            if (member.lease == 0) {
                continue;
            }
            update.leases.push_back(member.lease);
            const auto index = static_cast<std::size_t>(member.worker);
            const PushTicket ticket{.id = {.worker = member.worker,
                                           .incarnation = engine.incarnation(member.worker),
                                           .sequence = ++pushes_[index]},
                                    .lease = member.lease,
                                    .version = computed_on,
                                    .samples = member.samples};
            for (const Effect& effect : engine.push(ticket)) {
                if (const auto* fired = std::get_if<Fire>(&effect)) {
                    update.version = fired->version;
                }
            }
        }
        check_invariant(update.version == computed_on + 1 && engine.pending() == 0,
                        "a round is one update");
        books_.commit(update);
    }

    /// Who takes part with samples, and who only passes on.
    void tell_engine(const RoundMember& member) {
        UpdateEngine& engine = books_.engine();
        const auto index = static_cast<std::size_t>(member.worker);
        const bool idle = member.lease == 0;
        if (idle && !idle_[index]) {
            check_invariant(engine.idle(member.worker).empty(), "nothing is pending in a ring");
        } else if (!idle && idle_[index]) {
            check_invariant(engine.resumed(member.worker).empty(), "nothing is pending in a ring");
        }
        idle_[index] = idle;
        if (!idle) {
            engine.leased(member.worker, member.lease, member.samples);
        }
    }

    void void_round(const Granted& granted, const RoundReport& report) {
        for (std::size_t i = 0; i < granted.order.members.size(); ++i) {
            const RoundMember& member = granted.order.members[i];
            const RoundMemberReport& said = report.members[i];
            if (member.lease != 0) {
                books_.leases().returned(member.lease,
                                         non_finite_reason(said.loss_sum, said.finite).empty()
                                             ? ReturnReason::kVoidRound
                                             : ReturnReason::kNonFinite);
            }
        }
    }

    Links links_;
    const JobParts& parts_;
    RunBooks& books_;
    std::deque<Granted> granted_;  ///< rounds that have not been reported, oldest first
    std::uint64_t rounds_ = 0;
    std::vector<bool> idle_;             ///< by worker, as the engine knows it
    std::vector<std::uint64_t> pushes_;  ///< by worker
};

}  // namespace

std::unique_ptr<UpdateFlow> make_ring_flow(Links links, const JobParts& parts, RunBooks& books) {
    return std::make_unique<RingFlow>(links, parts, books);
}

}  // namespace cohort
