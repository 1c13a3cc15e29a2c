// What rounds and requests leave behind: evaluations, checkpoints and snapshots.
#include <algorithm>
#include <utility>

#include "train/coordinator/ring/flow_ring.hpp"

namespace cohort {

/// While a member is being brought up its parameters may be old: then it waits.
int RingFlow::request(const UpdateExtras& extras) {
    if (!recovery_) {
        return ask_now(extras);
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
    return static_cast<int>(members_.size());
}

int RingFlow::ask_now(const UpdateExtras& extras) {
    RoundOrder order{.epoch = epoch_, .keep = ids_.kept(), .members = {}};
    ask(order, extras);
    note_asked(order, extras);
    for (const int worker : members_) {
        send(worker, MessageKind::kRound, order);
    }
    return std::max<int>(1, static_cast<int>(order.evaluators.size()));
}

/// What a round or request leaves behind. With a snapshot gathered for it nobody else evaluates.
void RingFlow::ask(RoundOrder& order, const UpdateExtras& extras) {
    order.reporter = reporter();
    order.snapshot = extras.snapshot;
    if (extras.evaluation != 0 && extras.snapshot.gather == 0) {
        order.evaluation = extras.evaluation;
        order.evaluators.assign(members_.begin(), members_.end());
        note_evaluators();
    }
}

/// Who does which part of the evaluation that is ordered now.
void RingFlow::note_evaluators() {
    evaluators_.clear();
    for (const int worker : members_) {
        evaluators_.push_back(links_.map.rank_of_worker(worker));
    }
}

/// Remembers who writes the checkpoint and who sends the snapshot that are under way.
void RingFlow::note_asked(const RoundOrder& order, const UpdateExtras& extras) {
    if (!order.snapshot.checkpoint.empty()) {
        writing_ = order.snapshot.checkpoint;
        writer_ = order.reporter;
    }
    if (order.snapshot.gather != 0) {
        gathering_ = {.evaluation = extras.evaluation, .snapshot = {}};
        gathering_.snapshot.gather = order.snapshot.gather;
        gatherer_ = order.reporter;
    }
}

/// What a lost member was to leave behind. A snapshot of the parameters at the end another one
/// sends; one that was to be evaluated is past.
void RingFlow::ask_others(int lost) {
    if (!writing_.empty() && writer_ == lost) {
        fail_checkpoint();
    }
    if (gathering_.snapshot.gather == 0 || gatherer_ != lost) {
        return;
    }
    const UpdateExtras again = std::exchange(gathering_, {});
    if (again.evaluation != 0) {
        send_order(links_, {links_.messenger.rank(), Port::kCoordinator}, MessageKind::kEvaluated,
                   EvaluatedPart{.id = again.evaluation});
        return;
    }
    later_ = later_.value_or(UpdateExtras());
    later_->snapshot.gather = again.snapshot.gather;
}

/// Nobody will say that the checkpoint is written.
void RingFlow::fail_checkpoint() {
    send_order(links_, {links_.messenger.rank(), Port::kCoordinator}, MessageKind::kSaved,
               SavedPart{.checkpoint = std::exchange(writing_, {}),
                         .part = 0,
                         .error = "the worker that wrote it is lost"});
}

}  // namespace cohort
