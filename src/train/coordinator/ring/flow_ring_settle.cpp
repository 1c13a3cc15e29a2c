// What becomes of a round that is over: an update, or nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "cohort/core/error.hpp"
#include "train/coordinator/ring/flow_ring.hpp"

namespace cohort {

void RingFlow::settle(const Granted& granted, const RoundReport& report) {
    reported_ = report.round;
    BatchResult result;
    std::string because;
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const RoundSummary& member = report.members[i];
        const int worker = granted.order.members[i].worker;
        const std::string reason = non_finite_reason(member.loss_sum, member.finite);
        if (because.empty() && !reason.empty()) {
            because =
                report.members.size() == 1 ? reason : fmt::format("worker {}: {}", worker, reason);
        }
        result.samples += member.samples;
        result.loss_sum += member.loss_sum;
        result.correct += member.correct;
    }
    note_times(granted, report);
    for (const PushId& push : granted.riders) {
        const Ticket& ticket = *work_.at(push).ticket;
        result.samples += ticket.samples;
        result.loss_sum += ticket.loss_sum;
        result.correct += ticket.correct;
    }
    check_invariant(result.samples == granted.samples, "members trained what was granted");
    books_.spent(report.members.front().compute_s, report.exposed_s, report.exchange_s);
    if (because.empty()) {
        fire(granted, report, result);
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
    skip(report.skip);
    note_departures();
}

/// What members waited for the round before: the last to arrive waited least. That is everybody's
/// own, the rest is waiting for it.
void RingFlow::note_times(const Granted& granted, const RoundReport& report) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    double own_s = kNone;
    double moving_s = kNone;
    for (const RoundSummary& member : report.members) {
        if (member.load.waited_s >= 0) {
            own_s = std::min(own_s, member.load.waited_s);
            moving_s = std::min(moving_s, member.load.exchange_s);
        }
    }
    const auto members = static_cast<double>(report.members.size());
    const double moved = 2 * (members - 1) / members * push_bytes(parts_);
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const RoundSummary& member = report.members[i];
        const int worker = granted.order.members[i].worker;
        if (member.samples == 0) {
            continue;
        }
        const bool known = member.load.waited_s >= 0;
        IterationRecord record{.worker = worker,
                               .iteration = static_cast<std::int64_t>(seat(worker).pushes) + 1,
                               .samples = member.samples,
                               .version = books_.engine().version(),
                               .input_s = member.input_s,
                               .compute_s = member.compute_s,
                               .pull_s = (known ? own_s : 0) + member.load.apply_s,
                               .wait_s = known ? member.load.waited_s - own_s : 0,
                               .use = member.load.use,
                               .telemetry_s = member.load.telemetry_s};
        if (known && moving_s > 0) {
            record.use.rx_bytes_s = record.use.tx_bytes_s = moved / moving_s;
        }
        books_.timed(record);
    }
}

/// Feeds the pushes of the round to the engine, which must fire exactly once.
void RingFlow::fire(const Granted& granted, const RoundReport& report, const BatchResult& result) {
    UpdateEngine& engine = books_.engine();
    const std::int64_t computed_on = engine.version();
    const std::vector<PushTicket> tickets = tickets_of(granted, report);
    engine.set_noise_scale(granted.noise_scale);
    UpdateRecord update{.fraction = granted.order.fraction,
                        .learning_rate = granted.order.lr,
                        .epoch = granted.epoch,
                        .result = result};
    std::vector<PushOutcome> outcomes;
    const auto look = [&](const std::vector<Effect>& effects) {
        for (const Effect& effect : effects) {
            if (const auto* fired = std::get_if<Fire>(&effect)) {
                check_invariant(std::abs(fired->fraction - update.fraction) <= 1e-9,
                                "a round is worth what was granted");
                update.version = fired->version;
                outcomes = outcomes_of(*fired);
            }
        }
    };
    for (std::size_t i = 0; i < tickets.size(); ++i) {
        update.leases.push_back(tickets[i].lease);
        update.gradient_norm += tickets[i].gradient_norm / static_cast<double>(tickets.size());
        look(engine.push(tickets[i]));
        if (i < granted.riders.size()) {  // no round waits for it, whatever the plan calls it
            look(engine.idle(tickets[i].id.worker));
            seat(tickets[i].id.worker).idle = true;
        }
    }
    check_invariant(update.version == computed_on + 1 && engine.version() == update.version &&
                        engine.pending() == 0 && outcomes.size() == tickets.size(),
                    "a round is one update");
    riders_fired(granted);
    for (const PushOutcome& outcome : outcomes) {
        books_.settled(outcome);
    }
    answered(granted, report, tickets);
    books_.commit(update);
}

/// The pushes of a round, riders' first, with their leases told to the engine.
std::vector<PushTicket> RingFlow::tickets_of(const Granted& granted, const RoundReport& report) {
    UpdateEngine& engine = books_.engine();
    std::vector<PushTicket> tickets;
    for (const PushId& push : granted.riders) {
        tickets.push_back(ticket_of(push));
        engine.leased(push.worker, tickets.back().lease, tickets.back().samples);
    }
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const RoundMember& member = granted.order.members[i];
        tell_engine(member);
        if (member.lease != 0) {
            tickets.push_back({.id = {.worker = member.worker,
                                      .incarnation = engine.incarnation(member.worker),
                                      .sequence = ++seat(member.worker).pushes},
                               .lease = member.lease,
                               .version = engine.version(),
                               .samples = member.samples,
                               .loss_sum = report.members[i].loss_sum,
                               .gradient_norm = report.members[i].gradient_norm,
                               .work = granted.order.work});
        }
    }
    return tickets;
}

std::vector<PushOutcome> RingFlow::outcomes_of(const Fire& fire) {
    std::vector<PushOutcome> outcomes;
    for (const FiredPush& push : fire.pushes) {
        outcomes.push_back(outcome_of(push));
    }
    return outcomes;
}

/// Who takes part with samples, and who only passes on.
void RingFlow::tell_engine(const RoundMember& member) {
    UpdateEngine& engine = books_.engine();
    Seat& worker = seat(member.worker);
    const bool idle = member.lease == 0;
    if (idle && !worker.idle) {
        check_invariant(engine.idle(member.worker).empty(), "nothing is pending in a ring");
    } else if (!idle && worker.idle) {
        check_invariant(engine.resumed(member.worker).empty(), "nothing is pending in a ring");
    }
    worker.idle = idle;
    if (!idle) {
        engine.leased(member.worker, member.lease, member.samples);
    }
}

void RingFlow::void_round(const Granted& granted, const RoundReport& report) {
    withdrawn(granted);
    for (std::size_t i = 0; i < granted.order.members.size(); ++i) {
        const RoundMember& member = granted.order.members[i];
        const RoundSummary& said = report.members[i];
        if (member.lease != 0) {
            give_back(member.worker, member.lease,
                      non_finite_reason(said.loss_sum, said.finite).empty()
                          ? ReturnReason::kVoidRound
                          : ReturnReason::kNonFinite);
        }
    }
    put_back(granted);
}

/// At the end of a run all of them have come back already.
void RingFlow::give_back(int worker, std::uint64_t lease, ReturnReason reason) {
    const std::int64_t samples = books_.leases().samples_of(lease);
    if (samples == 0) {
        return;
    }
    books_.settled({.worker = worker, .samples = samples, .weight = 0, .returned = reason});
    books_.leases().returned(lease, reason);
}

}  // namespace cohort
