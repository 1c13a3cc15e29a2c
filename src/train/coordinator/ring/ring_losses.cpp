#include "train/coordinator/ring/ring_losses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"

namespace cohort {

RingLosses::RingLosses(RingContext& context, RingLeases& leases, RingRoles& roles,
                       RingRiders& riders, RingRequests& requests, RoundResults& results)
    : context_(context),
      leases_(leases),
      roles_(roles),
      riders_(riders),
      requests_(requests),
      results_(results),
      departures_(static_cast<std::size_t>(context.comm.map.workers())) {
}

void RingLosses::lost(int worker) {
    Departure& departure = departures_.at(static_cast<std::size_t>(worker));
    if (!context_.ring.roster.seat(worker).live) {
        departure.returned = false;  // lost again before it was let in
        return;
    }
    departure = {.pending = true};
    const bool member = context_.ring.roster.lose(worker);
    context_.leases().set_live(worker, false);
    riders_.lost(worker);
    leases_.lost(worker);
    context_.ids.forget(worker);
    requests_.lost(worker);
    if (member || roles_.awaits_state_of(worker)) {
        start_recovery();
        return;
    }
    note_departures();
    if (!recovery_) {
        go_on();
    }
}

/// Steps 4 and 5.
void RingLosses::go_on() {
    riders_.adopt();
    context_.ring.plans.prepare();
    requests_.resume();
}

void RingLosses::note_departures() {
    const auto& rounds = context_.ring.rounds.rounds();
    for (std::size_t index = 0; index < departures_.size(); ++index) {
        const auto worker = static_cast<int>(index);
        const bool held = std::any_of(rounds.begin(), rounds.end(), [worker](const Round& round) {
            return round.includes(worker);
        });
        if (departures_[index].pending && !held) {
            check_invariant(context_.engine().lost(worker).empty(), "nothing is pending in a ring");
            if (std::exchange(departures_[index], {}).returned) {
                joined(worker);
            }
        }
    }
}

/// A worker that was lost begins again as a rider; the next plan may make it a member.
void RingLosses::joined(int worker) {
    Departure& departure = departures_.at(static_cast<std::size_t>(worker));
    if (departure.pending) {
        departure.returned = true;  // when its last round is settled
        return;
    }
    for (const Effect& effect : context_.engine().joined(worker)) {
        check_invariant(std::holds_alternative<ReleaseOne>(effect),
                        "a worker that joins is only released");
    }
    results_.joined(worker);
    roles_.rejoin(worker);
}

/// Step 1; begins again when another member is lost meanwhile.
void RingLosses::start_recovery() {
    const std::vector<int>& members = context_.ring.roster.members();
    if (members.empty()) {
        fail<PeerError>({.where = "ring",
                         .what = "all members are lost",
                         .hint = "a restart from the last checkpoint"});
    }
    std::optional<RoundReport> known = recovery_ ? recovery_->report : std::nullopt;
    recovery_ = {.answers = {}, .bringing = {}, .report = std::move(known)};
    ++context_.epoch;
    for (const int worker : members) {
        context_.send(worker, RingMessageKind::kRecover, RecoverOrder{context_.epoch});
    }
}

void RingLosses::recovered(const Recovered& answer) {
    if (!recovery_ || answer.epoch != context_.epoch) {
        return;
    }
    recovery_->answers.push_back(answer);
    if (all_answered()) {
        bring_up();
        if (recovery_->bringing.empty()) {
            end_recovery();
        }
    }
}

std::uint64_t RingLosses::Recovery::newest_round() const {
    std::uint64_t newest = 0;
    for (const Recovered& answer : answers) {
        newest = std::max(newest, answer.round);
    }
    return newest;
}

/// Step 2.
void RingLosses::bring_up() {
    const auto& answers = recovery_->answers;
    const std::uint64_t newest = recovery_->newest_round();
    if (newest < results_.last()) {
        fail<PeerError>({.where = "ring",
                         .what = "the only member with the newest parameters is lost",
                         .expected = fmt::format("round {}", results_.last()),
                         .got = fmt::format("round {}", newest),
                         .hint = "a restart from the last checkpoint"});
    }
    const auto best =
        std::find_if(answers.begin(), answers.end(),
                     [newest](const Recovered& answer) { return answer.round == newest; });
    for (const Recovered& answer : answers) {
        if (answer.round < newest) {
            recovery_->bringing.push_back(roles_.bring(answer.worker, best->worker));
        } else if (answer.report.round == newest) {
            recovery_->report = answer.report;
        }
    }
}

void RingLosses::role_taken(const RoleTaken& taken) {
    if (recovery_) {
        std::erase(recovery_->bringing, taken.number);
    }
    if (taken.number != roles_.at(taken.worker).order ||
        !context_.ring.roster.seat(taken.worker).live) {
        return;  // overtaken by a newer order
    }
    riders_.role_taken(taken);
    if (recovery_ && recovery_->bringing.empty() && all_answered()) {
        end_recovery();
    }
}

/// Steps 2 to 5, when all members hold the same. What the rounds were to leave behind (evaluation,
/// snapshot) has been given up when the loss became known.
void RingLosses::end_recovery() {
    const Recovery done = *std::exchange(recovery_, std::nullopt);
    RoundScheduler& rounds = context_.ring.rounds;
    const std::uint64_t round = done.newest_round();
    if (!rounds.empty() && rounds.rounds().front().number == round) {
        check_invariant(done.report && done.report->round == round, "a round has its report");
        results_.report(*done.report, false);
    }
    std::vector<int> completed;  // they have sent its parameters to the riders in it
    for (const Recovered& answer : done.answers) {
        if (answer.report.round == round) {
            completed.push_back(answer.worker);
        }
    }
    riders_.replace_missed(round, completed);
    while (!rounds.empty()) {
        results_.give_up_oldest();
    }
    note_departures();
    go_on();
}

std::vector<int> RingLosses::awaited() const {
    std::vector<int> ranks;
    if (!recovery_) {
        return ranks;
    }
    const auto& [answers, bringing, report] = *recovery_;
    for (const int worker : context_.ring.roster.members()) {
        const bool answered =
            std::any_of(answers.begin(), answers.end(),
                        [worker](const Recovered& answer) { return answer.worker == worker; });
        if (!answered || std::find(bringing.begin(), bringing.end(), roles_.at(worker).order) !=
                             bringing.end()) {
            ranks.push_back(context_.comm.map.rank_of_worker(worker));
        }
    }
    return ranks;
}

}  // namespace cohort
