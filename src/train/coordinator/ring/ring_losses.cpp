#include "train/coordinator/ring/ring_losses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
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
    } else if (recovery_->succession && !recovery_->successor) {
        std::erase_if(recovery_->answers,
                      [worker](const Recovered& answer) { return answer.worker == worker; });
        proceed();
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
        const bool waits = departures_[index].returned && context_.ring.roster.members().empty();
        if (departures_[index].pending && !held && !waits) {
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
    if (departure.pending || context_.ring.roster.members().empty()) {
        departure = {.pending = true, .returned = true};  // let in once its last round is settled
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
    if (context_.ring.roster.members().empty() || (recovery_ && recovery_->succession)) {
        start_succession();
        return;
    }
    std::vector<RoundReport> known = recovery_ ? recovery_->reports : std::vector<RoundReport>();
    recovery_ = Recovery{};
    recovery_->reports = std::move(known);
    ask();
}

void RingLosses::start_succession() {
    context_.ring.roster.disband();
    const Undone undone = recovery_ ? recovery_->undone : Undone{};
    recovery_ = Recovery{};
    recovery_->succession = true;
    recovery_->undone = undone;
    ask();
    proceed();  // nobody may be left
}

void RingLosses::ask() {
    ++context_.epoch;
    for (const int worker : asked()) {
        context_.send(worker, RingMessageKind::kRecover, RecoverOrder{context_.epoch});
    }
}

std::vector<int> RingLosses::asked() const {
    const RingRoster& roster = context_.ring.roster;
    if (!recovery_->succession) {
        return roster.members();
    }
    std::vector<int> live;
    for (int worker = 0; worker < roster.workers(); ++worker) {
        if (roster.seat(worker).live) {
            live.push_back(worker);
        }
    }
    return live;
}

void RingLosses::recovered(const Recovered& answer) {
    if (!recovery_ || answer.epoch != context_.epoch) {
        return;
    }
    recovery_->answers.push_back(answer);
    proceed();
}

void RingLosses::proceed() {
    if (!all_answered()) {
        return;
    }
    if (!recovery_->succession && recovery_->newest_round() < results_.last()) {
        start_succession();
        return;
    }
    recovery_->succession ? succeed() : bring_up();
    if (recovery_->bringing.empty()) {
        end_recovery();
    }
}

std::uint64_t RingLosses::Recovery::newest_round() const {
    std::uint64_t newest = 0;
    for (const Recovered& answer : answers) {
        newest = std::max(newest, answer.round);
    }
    return newest;
}

/// Those who have sent its parameters to the riders in it.
std::vector<int> RingLosses::Recovery::completed(std::uint64_t round) const {
    std::vector<int> workers;
    for (const Recovered& answer : answers) {
        if (!answer.reports.empty() && answer.reports.back().round == round) {
            workers.push_back(answer.worker);
        }
    }
    return workers;
}

/// Step 2.
void RingLosses::bring_up() {
    const auto& answers = recovery_->answers;
    const std::uint64_t newest = recovery_->newest_round();
    const auto best =
        std::find_if(answers.begin(), answers.end(),
                     [newest](const Recovered& answer) { return answer.round == newest; });
    for (const Recovered& answer : answers) {
        if (answer.round < newest) {
            recovery_->bringing.push_back(roles_.bring(answer.worker, best->worker));
        } else if (!answer.reports.empty() && answer.reports.back().round == newest) {
            recovery_->reports = answer.reports;
        }
    }
}

/// Whether the ring can go on from what a worker holds: updates that it has and the coordinator has
/// not can be booked with their reports, ones that it lacks can be undone. After the end of
/// training nothing is dealt again.
bool RingLosses::can_succeed(const Recovered& answer) const {
    const std::int64_t booked = context_.engine().version();
    if (results_.given_up(answer.parameters_round)) {
        return false;  // its version is another's by now
    }
    if (answer.version > booked) {
        const auto& granted = context_.ring.rounds.rounds();
        return std::all_of(granted.begin(), granted.end(), [&answer](const Round& round) {
            return round.number > answer.parameters_round ||
                   std::any_of(answer.reports.begin(), answer.reports.end(),
                               [&round](const RoundReport& report) {
                                   return report.round == round.number;
                               });
        });
    }
    return answer.version == booked ||
           (results_.can_undo_after(answer.version) && !context_.session().stopping());
}

/// Rounds whose reports have not come otherwise. What they were to leave behind (evaluation,
/// snapshot) has been given up when the loss became known.
void RingLosses::settle(const std::vector<RoundReport>& reports, std::uint64_t last) {
    const RoundScheduler& rounds = context_.ring.rounds;
    for (const RoundReport& report : reports) {
        if (!rounds.empty() && rounds.rounds().front().number == report.round &&
            report.round <= last) {
            results_.report(report, false);
        }
    }
}

/// Chooses who succeeds the members, books the rounds that only its parameters tell of, and brings
/// it the newest state of the optimizer.
void RingLosses::succeed() {
    const Recovered* best = nullptr;
    const Recovered* optimizer = nullptr;
    const auto newer = [](const Recovered* one, const Recovered* other, auto&&... fields) {
        return other == nullptr || std::tuple(one->*fields..., -one->worker) >
                                       std::tuple(other->*fields..., -other->worker);
    };
    for (const Recovered& answer : recovery_->answers) {
        if (can_succeed(answer) &&
            newer(&answer, best, &Recovered::version, &Recovered::optimizer_version)) {
            best = &answer;
        }
        if (newer(&answer, optimizer, &Recovered::optimizer_version)) {
            optimizer = &answer;
        }
    }
    if (best == nullptr) {
        fail<PeerError>({.where = "ring",
                         .what = "all members are lost, and with them what was trained last",
                         .hint = "a restart from the last checkpoint"});
    }
    settle(best->reports, best->parameters_round);
    // Now: the successor counts them as its own from when it has its state.
    const Undone undone = results_.undo_after(best->version);
    recovery_->undone.updates += undone.updates;
    recovery_->undone.samples += undone.samples;
    const bool own = best->optimizer_version == optimizer->optimizer_version;
    recovery_->successor = *best;
    recovery_->optimizer_version = optimizer->optimizer_version;
    recovery_->bringing.push_back(
        roles_.succeed(best->worker, own ? best->worker : optimizer->worker, results_.last()));
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
    if (recovery_ && recovery_->bringing.empty() && (recovery_->successor || all_answered())) {
        end_recovery();
    }
}

/// Steps 2 to 5, when all members hold the same.
void RingLosses::end_recovery() {
    const Recovery done = *std::exchange(recovery_, std::nullopt);
    if (done.succession) {
        end_succession(done);
        return;
    }
    RoundScheduler& rounds = context_.ring.rounds;
    const std::uint64_t round = done.newest_round();
    settle(done.reports, round);
    check_invariant(rounds.empty() || rounds.rounds().front().number > round,
                    "a round has its report");
    riders_.replace_missed(round, done.completed(round));
    while (!rounds.empty()) {
        results_.give_up_oldest();
    }
    riders_.ask_again();
    note_departures();
    go_on();
}

/// The engine's plan names the successor as its only member, the modes may arrange the others anew.
void RingLosses::end_succession(const Recovery& done) {
    const Recovered& successor = *done.successor;
    riders_.replace_missed(results_.last(), done.completed(results_.last()));
    while (!context_.ring.rounds.empty()) {
        results_.give_up_oldest();
    }
    riders_.succeeds(successor.worker);
    riders_.all_ride_with(successor.worker);
    note_departures();
    UpdateEngine& engine = context_.engine();
    SyncPlan plan = engine.plan();
    CohortSpec& cohort = plan.cohorts.front();
    cohort.members = {successor.worker};
    cohort.quorum = 1;
    cohort.riders.clear();
    for (int worker = 0; worker < context_.ring.roster.workers(); ++worker) {
        if (worker != successor.worker && engine.live(worker)) {
            cohort.riders.push_back(worker);
        }
    }
    for (const Effect& effect : engine.install(std::move(plan))) {
        check_invariant(std::holds_alternative<ReleaseOne>(effect), "a fence has nothing pending");
    }
    leases_.resize(context_.ring.roster.members(), false, {});
    context_.session().installed();
    context_.observer.undone(
        done.undone.updates, done.undone.samples,
        fmt::format("all members of the ring are lost: worker {} goes on with the parameters of "
                    "update {} and the optimizer's state of update {}",
                    successor.worker, successor.version, done.optimizer_version));
    go_on();
}

std::vector<int> RingLosses::awaited() const {
    std::vector<int> ranks;
    if (!recovery_) {
        return ranks;
    }
    const std::vector<Recovered>& answers = recovery_->answers;
    const std::vector<std::uint64_t>& bringing = recovery_->bringing;
    for (const int worker : asked()) {
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
