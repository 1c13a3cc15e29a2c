#include "train/coordinator/ring/round_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Why the round cannot be applied; empty when all of it is finite.
std::string reason_to_abort(const RoundReport& report, const Round& round) {
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const RoundSummary& member = report.members[i];
        const std::string reason = non_finite_reason(member.loss_sum, member.finite);
        if (!reason.empty()) {
            return report.members.size() == 1
                       ? reason
                       : fmt::format("worker {}: {}", round.members[i].worker, reason);
        }
    }
    return {};
}

/// All members apply the same updates to the same parameters: where they differ, their sums are of
/// no use. Errors: NumericalError, which names those whose checksum is not the most frequent one.
void check_same_parameters(const Round& round, const RoundReport& report, const RankMap& map) {
    std::map<std::uint32_t, std::vector<int>> ranks;  // by checksum
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        ranks[report.members[i].checksum].push_back(map.rank_of_worker(round.members[i].worker));
    }
    if (ranks.size() < 2) {
        return;
    }
    std::vector<std::vector<int>> groups;
    for (auto& [checksum, members] : ranks) {
        groups.push_back(std::move(members));
    }
    std::ranges::sort(groups, [](const std::vector<int>& a, const std::vector<int>& b) {
        return std::tuple(b.size(), a) < std::tuple(a.size(), b);
    });
    const bool most_agree = groups[0].size() > groups[1].size();
    std::string got;
    for (std::size_t i = most_agree ? 1 : 0; i < groups.size(); ++i) {
        got += got.empty() ? "" : most_agree ? ", " : " against ";
        got += map.describe(groups[i]);
    }
    got += most_agree ? ", unlike the others" : "";
    fail<NumericalError>(
        {.where = fmt::format("ring round {}", report.round),
         .what = "the members' parameters differ",
         .expected = "the same bits on all members",
         .got = got,
         .hint = "a program that leaves it to the job to change parameters (no optimizer.step()); "
                 "else the memory of the host that differs"});
}

/// Where the time of members with samples went. What they waited for the round before: the last to
/// arrive waited least, which is everybody's own time, the rest is waiting for it.
/// @param bytes  of a gradient
std::vector<IterationRecord> times_of(const Round& round, const RoundReport& report, double bytes) {
    double own_s = std::numeric_limits<double>::infinity();
    double moving_s = own_s;
    for (const RoundSummary& member : report.members) {
        if (member.load.waited_s >= 0) {
            own_s = std::min(own_s, member.load.waited_s);
            moving_s = std::min(moving_s, member.load.exchange_s);
        }
    }
    const auto members = static_cast<double>(report.members.size());
    const double moved = 2 * (members - 1) / members * bytes;
    std::vector<IterationRecord> records;
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const RoundSummary& member = report.members[i];
        if (member.samples == 0) {
            continue;
        }
        const bool known = member.load.waited_s >= 0;
        IterationRecord record{.worker = round.members[i].worker,
                               .samples = member.samples,
                               .steps = round.steps,
                               .input_s = member.input_s,
                               .compute_s = member.compute_s,
                               .pull_s = (known ? own_s : 0) + member.load.apply_s,
                               .wait_s = known ? member.load.waited_s - own_s : 0,
                               .use = member.load.use,
                               .telemetry_s = member.load.telemetry_s};
        if (known && moving_s > 0) {
            record.use.rx_bytes_s = record.use.tx_bytes_s = moved / moving_s;
        }
        records.push_back(record);
    }
    return records;
}

}  // namespace

RoundResults::RoundResults(RingContext& context, RingLeases& leases, RingGradients& gradients,
                           RingRiders& riders, RingRequests& requests)
    : context_(context),
      leases_(leases),
      gradients_(gradients),
      riders_(riders),
      requests_(requests),
      booking_(context.comm.map.workers(), context.ring.riders, *this),
      pushes_(static_cast<std::size_t>(context.comm.map.workers()), 0),
      booked_after_(context.engine().version()) {
}

void RoundResults::report(const RoundReport& report, bool counts) {
    const Round round = context_.ring.rounds.take_oldest();
    check_invariant(round.number == report.round, "a round has its report");
    rounds_over_.last = report.round;
    check_same_parameters(round, report, context_.comm.map);
    settle(round, report);
    if (report.version != context_.engine().version()) {
        fail<PeerError>({.where = fmt::format("ring round {}", report.round),
                         .what = "the members are at another version than the coordinator",
                         .expected = std::to_string(context_.engine().version()),
                         .got = std::to_string(report.version)});
    }
    skip(report.skip);
    requests_.round_over(round.number, counts);
}

void RoundResults::settle(const Round& round, const RoundReport& report) {
    const BatchResult result = sum_of(round, report);
    check_invariant(result.samples == round.samples, "members trained what was granted");
    note_times(round, report);
    context_.observer.spent(report.members.front().compute_s, report.exposed_s, report.exchange_s);
    const std::string because = reason_to_abort(report, round);
    if (because.empty()) {
        apply(round, report, result);
    } else {
        NonFiniteBatch dropped = dropped_of(round, report);
        dropped.result = result;
        dropped.because = because;
        abort(round, report);
        context_.session().dropped();
        context_.observer.drop(dropped);
    }
}

/// While its leases are still outstanding.
NonFiniteBatch RoundResults::dropped_of(const Round& round, const RoundReport& report) const {
    NonFiniteBatch dropped;
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const LeaseOrder* const lease = context_.leases().open().find(round.members[i].lease);
        const RoundSummary& member = report.members[i];
        if (non_finite_reason(member.loss_sum, member.finite).empty()) {
            dropped.others_finite = dropped.others_finite || member.samples > 0;
        } else if (lease != nullptr) {
            dropped.leases.push_back(slice_of(*lease));
        }
    }
    return dropped;
}

BatchResult RoundResults::sum_of(const Round& round, const RoundReport& report) const {
    BatchResult result;
    for (const RoundSummary& member : report.members) {
        result.samples += member.samples;
        result.loss_sum += member.loss_sum;
        result.correct += member.correct;
    }
    for (const PushId& rider : round.riders) {
        const RiderGradient& gradient = context_.ring.riders.at(rider);
        result.samples += gradient.ticket->samples;
        result.loss_sum += gradient.ticket->loss_sum;
        result.correct += gradient.ticket->correct;
    }
    return result;
}

void RoundResults::note_times(const Round& round, const RoundReport& report) {
    for (IterationRecord& record : times_of(round, report, push_bytes(context_.parts))) {
        const auto pushes = pushes_[static_cast<std::size_t>(record.worker)];
        record.iteration = static_cast<std::int64_t>(pushes) + 1;
        record.version = context_.engine().version();
        context_.observer.timed(record);
    }
}

void RoundResults::apply(const Round& round, const RoundReport& report, const BatchResult& result) {
    tickets_ = pushes_of(round, report);
    fire_.reset();
    context_.engine().set_noise_scale(round.noise_scale);
    booking_.apply(context_.engine(), round);
    check_invariant(fire_ && fire_->pushes.size() == tickets_.size() &&
                        std::abs(fire_->fraction - round.fraction) <= 1e-9,
                    "a round is worth what was granted");
    UpdateOrder update{.version = fire_->version,
                       .fraction = round.fraction,
                       .learning_rate = round.lr,
                       .epoch = round.epoch,
                       .samples = result.samples,
                       .loss_sum = result.loss_sum,
                       .correct = result.correct};
    riders_.applied(round);
    keep(*fire_);
    for (const PushTicket& ticket : tickets_) {
        update.terms.push_back({.push = ticket.id, .lease = ticket.lease});
        update.gradient_norm += ticket.gradient_norm / static_cast<double>(tickets_.size());
        context_.leases().open().applied(ticket.lease);
    }
    gradients_.answered(round, report.squares, tickets_);
    context_.session().updated(*fire_);
    context_.observer.updated(update);
}

/// Members are at most one round apart; riders hold what they have told of.
void RoundResults::keep(const Fire& fire) {
    Booked update{.version = fire.version, .leases = {}};
    for (const PushTicket& ticket : tickets_) {
        const LeaseOrder* const lease = context_.leases().open().find(ticket.lease);
        check_invariant(lease != nullptr, "an applied lease is outstanding");
        update.leases.emplace_back(ticket.id.worker, slice_of(*lease));
    }
    booked_.push_back(std::move(update));
    booked_after_ = std::max(booked_after_, std::min(riders_.oldest_version(), fire.version - 1));
    while (booked_.front().version <= booked_after_) {
        booked_.pop_front();
    }
}

bool RoundResults::can_undo_after(std::int64_t version) const {
    return version >= booked_after_ && version <= context_.engine().version();
}

Undone RoundResults::undo_after(std::int64_t version) {
    check_invariant(can_undo_after(version), "lost updates are known");
    Undone undone;
    const auto first =
        std::find_if(booked_.begin(), booked_.end(),
                     [version](const Booked& update) { return update.version > version; });
    for (auto update = first; update != booked_.end(); ++update) {
        ++undone.updates;
        for (const auto& [worker, slice] : update->leases) {
            context_.leases().open().undone(slice);
            context_.session().undone(worker, slice.count);
            undone.samples += slice.count;
        }
    }
    booked_.erase(first, booked_.end());
    return undone;
}

/// The pushes of a round, riders' first.
std::vector<PushTicket> RoundResults::pushes_of(const Round& round, const RoundReport& report) {
    const UpdateEngine& engine = context_.engine();
    std::vector<PushTicket> pushes;
    for (const PushId& rider : round.riders) {
        pushes.push_back(*context_.ring.riders.at(rider).ticket);
    }
    for (std::size_t i = 0; i < report.members.size(); ++i) {
        const RoundMember& member = round.members[i];
        if (member.lease != 0) {
            const auto worker = static_cast<std::size_t>(member.worker);
            pushes.push_back({.id = {.worker = member.worker,
                                     .incarnation = engine.incarnation(member.worker),
                                     .sequence = ++pushes_[worker]},
                              .lease = member.lease,
                              .version = engine.version(),
                              .samples = member.samples,
                              .loss_sum = report.members[i].loss_sum,
                              .correct = report.members[i].correct,
                              .gradient_norm = report.members[i].gradient_norm,
                              .work = round.work});
        }
    }
    return pushes;
}

void RoundResults::push(std::uint64_t lease) {
    const auto ticket = std::find_if(tickets_.begin(), tickets_.end(),
                                     [lease](const PushTicket& one) { return one.lease == lease; });
    carry_out(context_.engine().push(*ticket));
}

void RoundResults::carry_out(const std::vector<Effect>& effects) {
    for (const Effect& effect : effects) {
        if (const auto* fire = std::get_if<Fire>(&effect)) {
            fire_ = *fire;
        } else if (const auto* lease = std::get_if<ReturnLease>(&effect)) {
            leases_.give_back(lease->worker, lease->lease, lease->reason);
        }
    }
}

/// A tail that is not finite aborts the round for all.
void RoundResults::abort(const Round& round, const RoundReport& report) {
    std::vector<ReturnReason> reasons;
    for (const RoundSummary& member : report.members) {
        const bool finite = non_finite_reason(member.loss_sum, member.finite).empty();
        reasons.push_back(finite ? ReturnReason::kVoidRound : ReturnReason::kNonFinite);
    }
    booking_.abort(context_.engine(), round, reasons);
    context_.ring.riders.put_back(round);
    not_applied(round);
}

/// The members have skipped what was granted up to round `last`: as if it had not been. Members
/// keep the leases, parents the gradients of riders.
void RoundResults::skip(std::uint64_t last) {
    RoundScheduler& rounds = context_.ring.rounds;
    while (!rounds.empty() && rounds.rounds().back().number <= last) {
        const Round round = rounds.skip_newest();
        for (const RoundMember& member : round.members) {
            leases_.unclaim(round, member);
        }
        requests_.forget(round.number);
        not_applied(round);
    }
}

void RoundResults::give_up_oldest() {
    const Round round = context_.ring.rounds.take_oldest();
    rounds_over_.given_up.insert(round.number);
    for (const RoundMember& member : round.members) {
        const bool live = context_.ring.roster.seat(member.worker).live;
        leases_.give_back(member.worker, member.lease,
                          live ? ReturnReason::kVoidRound : ReturnReason::kLost);
        if (live && member.lease != 0) {
            context_.send(
                member.worker, MessageKind::kRevoke,
                RevokeOrder{.leases = {member.lease}, .version = context_.engine().version()});
        }
    }
    context_.ring.riders.put_back(round);
    requests_.forget(round.number);
    not_applied(round);
}

void RoundResults::not_applied(const Round& round) {
    gradients_.withdrawn(round);
    riders_.forget_lost(round);
}

}  // namespace cohort
