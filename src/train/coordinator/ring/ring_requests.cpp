#include "train/coordinator/ring/ring_requests.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

int RingRequests::request(const UpdateExtras& extras, bool now) {
    if (now) {
        return ask(extras);
    }
    UpdateExtras all = later_.value_or(UpdateExtras());
    if (extras.evaluation != 0) {
        all.evaluation = extras.evaluation;
        note_evaluators();
    }
    if (extras.snapshot.gather != 0) {
        all.snapshot.gather = extras.snapshot.gather;
    }
    if (!extras.snapshot.checkpoint.empty()) {
        all.snapshot.checkpoint = extras.snapshot.checkpoint;
    }
    later_ = std::move(all);
    return std::max(1,
                    static_cast<int>(context_.ring.roster.members().size()));  // none: one will be
}

void RingRequests::resume() {
    if (later_) {
        ask(*std::exchange(later_, std::nullopt));
    }
}

int RingRequests::ask(const UpdateExtras& extras) {
    RoundOrder order{.epoch = context_.epoch, .keep = context_.ids.kept(), .members = {}};
    const Asked asked = describe(order, extras);
    note(asked);
    for (const int worker : context_.ring.roster.members()) {
        context_.send(worker, MessageKind::kRound, order);
    }
    return asked.parts;
}

void RingRequests::attach(RoundOrder& order, const UpdateExtras& extras) {
    by_round_[order.round] = describe(order, extras);
}

/// With a snapshot gathered for it nobody else evaluates. Worker 0, which is never lost, speaks for
/// the ring if it is a member.
RingRequests::Asked RingRequests::describe(RoundOrder& order, const UpdateExtras& extras) {
    const std::vector<int>& members = context_.ring.roster.members();
    order.reporter = context_.ring.roster.is_member(0) ? 0 : members.front();
    order.snapshot = extras.snapshot;
    if (extras.evaluation != 0 && extras.snapshot.gather == 0) {
        order.evaluation = extras.evaluation;
        order.evaluators.assign(members.begin(), members.end());
        note_evaluators();
    }
    const auto parts = static_cast<int>(order.evaluators.size());
    return {.extras = extras, .reporter = order.reporter, .parts = std::max(1, parts)};
}

/// All members do their part of the evaluation that is ordered now.
void RingRequests::note_evaluators() {
    evaluators_.clear();
    for (const int worker : context_.ring.roster.members()) {
        evaluators_.push_back(context_.comm.map.rank_of_worker(worker));
    }
}

void RingRequests::round_over(std::uint64_t round, bool counts) {
    const Asked asked = by_round_.extract(round).mapped();
    if (counts) {
        note(asked);
        context_.observer.taken(asked.extras, asked.parts);
    }
}

/// Remembers who writes the checkpoint and who sends the snapshot that are under way.
void RingRequests::note(const Asked& asked) {
    const SnapshotOrder& snapshot = asked.extras.snapshot;
    if (!snapshot.checkpoint.empty()) {
        writers_[snapshot.checkpoint] = asked.reporter;
    }
    if (snapshot.gather != 0) {
        snapshot_ = {.evaluation = asked.extras.evaluation, .snapshot = {}};
        snapshot_.snapshot.gather = snapshot.gather;
        sender_ = asked.reporter;
    }
}

bool RingRequests::empty() const {
    return std::all_of(by_round_.begin(), by_round_.end(), [](const auto& round) {
        const UpdateExtras& extras = round.second.extras;
        return extras.evaluation == 0 && extras.snapshot.empty();
    });
}

void RingRequests::gathered(const GatheredHeader& snapshot) {
    if (snapshot.gather == snapshot_.snapshot.gather) {
        snapshot_ = {};
    }
}

/// Nobody will say that the checkpoint is written. A snapshot of the parameters at the end another
/// member sends; one that was to be evaluated is past.
void RingRequests::lost(int worker) {
    const Address here{context_.comm.messenger.rank(), Port::kCoordinator};
    for (const auto& [checkpoint, writer] : writers_) {
        if (writer == worker) {
            send_order(context_.comm, here, MessageKind::kSaved,
                       SavedPart{.checkpoint = checkpoint,
                                 .part = 0,
                                 .error = "the worker that wrote it is lost"});
        }
    }
    std::erase_if(writers_, [worker](const auto& one) { return one.second == worker; });
    if (snapshot_.snapshot.gather == 0 || sender_ != worker) {
        return;
    }
    const UpdateExtras again = std::exchange(snapshot_, {});
    if (again.evaluation != 0) {
        send_order(context_.comm, here, MessageKind::kEvaluated,
                   EvaluatedPart{.id = again.evaluation});
        return;
    }
    later_ = later_.value_or(UpdateExtras());
    later_->snapshot.gather = again.snapshot.gather;
}

}  // namespace cohort
