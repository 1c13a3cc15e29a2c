#include <algorithm>
#include <utility>

#include "sched/engine/engine_state.hpp"

namespace cohort {

void PendingPushes::add(WorkerState& w, const PendingPush& push, bool counts) {
    CohortState& cohort = s_.cohorts[w.cohort];
    cohort.pending.push_back(push);
    cohort.pending.back().counts = counts;
    if (counts && !w.rider) {
        const bool adds = cohort.spec.count == CohortSpec::Count::kPushes || w.counted == 0;
        cohort.counting += adds ? 1 : 0;
        ++w.counted;
    }
    s_.touch(w.cohort);
}

void PendingPushes::place_workers() {
    s_.cohorts.assign(s_.plan.cohorts.size(), {});
    s_.touched.clear();
    for (WorkerState& w : s_.workers) {
        w.cohort = 0;
        w.rider = true;
        w.able = false;
        w.counted = 0;
    }
    for (std::size_t i = 0; i < s_.cohorts.size(); ++i) {
        s_.cohorts[i].spec = s_.plan.cohorts[i];
        for (const int member : s_.plan.cohorts[i].members) {
            s_.worker(member).cohort = i;
            s_.worker(member).rider = false;
        }
        for (const int rider : s_.plan.cohorts[i].riders) {
            s_.worker(rider).cohort = i;
        }
    }
}

std::vector<PendingPush> PendingPushes::all() const {
    std::vector<PendingPush> pushes;
    for (const CohortState& cohort : s_.cohorts) {
        pushes.insert(pushes.end(), cohort.pending.begin(), cohort.pending.end());
    }
    return pushes;
}

void PendingPushes::rehome(std::vector<PendingPush> carried_over) {
    std::sort(carried_over.begin(), carried_over.end(),
              [](const PendingPush& a, const PendingPush& b) { return a.arrival < b.arrival; });
    for (const PendingPush& push : carried_over) {
        add(s_.worker(push.ticket.id.worker), push, true);
    }
    s_.touched.clear();
    for (CohortState& cohort : s_.cohorts) {
        cohort.touched = true;
        s_.touched.push_back(static_cast<std::size_t>(&cohort - s_.cohorts.data()));
    }
    std::stable_sort(s_.touched.begin(), s_.touched.end(), [this](std::size_t a, std::size_t b) {
        const auto newest = [this](std::size_t i) {
            return s_.cohorts[i].pending.empty() ? 0 : s_.cohorts[i].pending.back().arrival;
        };
        return newest(a) < newest(b);
    });
}

void PendingPushes::refuse(const PendingPush& push, ReturnReason reason, Effects& effects) {
    --s_.pending;
    effects.emplace_back(Refuse{.push = push.ticket.id, .reason = reason});
    gate_.give_back(s_.worker(push.ticket.id.worker),
                    {.id = push.ticket.lease, .samples = push.ticket.samples}, reason, effects);
}

void PendingPushes::withdraw(const std::vector<PushId>& gone, Effects& effects) {
    for (std::size_t i = 0; i < s_.cohorts.size() && !gone.empty(); ++i) {
        const std::vector<PendingPush> pushes = std::exchange(s_.cohorts[i].pending, {});
        s_.cohorts[i].counting = 0;
        for (const PendingPush& push : pushes) {
            s_.worker(push.ticket.id.worker).counted = 0;
        }
        for (const PendingPush& push : pushes) {
            if (std::find(gone.begin(), gone.end(), push.ticket.id) == gone.end()) {
                add(s_.worker(push.ticket.id.worker), push, push.counts);
            } else {
                refuse(push, ReturnReason::kLost, effects);
            }
        }
    }
}

void PendingPushes::drop_all(Effects& effects) {
    for (CohortState& cohort : s_.cohorts) {
        for (const PendingPush& push : cohort.pending) {
            WorkerState& w = s_.worker(push.ticket.id.worker);
            w.counted = 0;
            w.pending = 0;
            refuse(push, ReturnReason::kStop, effects);
        }
        cohort.pending.clear();
        cohort.counting = 0;
    }
}

}  // namespace cohort
