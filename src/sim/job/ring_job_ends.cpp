#include <algorithm>

#include "sim/job/ring_job_parts.hpp"

namespace cohort {

/// The gradients of riders were looked at before they were granted.
void RingJob::RoundEnd::settle(const Round& round) {
    std::vector<ReturnReason> reasons;
    for (const RoundMember& member : round.members) {
        reasons.push_back(member.lease == 0 || finite(member.lease) ? ReturnReason::kVoidRound
                                                                    : ReturnReason::kNonFinite);
    }
    if (std::find(reasons.begin(), reasons.end(), ReturnReason::kNonFinite) == reasons.end()) {
        apply(round);
    } else {
        abort(round, reasons);
    }
}

void RingJob::RoundEnd::apply(const Round& round) {
    computed_on_ = job_.engine().version();
    booking_.apply(job_.engine(), round);
    for (const RoundRider& rider : round.riders) {
        job_.ring_.riders.settle(rider.push);
    }
    for (const RoundMember& member : round.members) {
        job_.worker(member.worker).update_due = true;
    }
}

/// Nothing is applied: leases come back, parents still hold the gradients of riders.
void RingJob::RoundEnd::abort(const Round& round, const std::vector<ReturnReason>& reasons) {
    for (std::size_t i = 0; i < reasons.size(); ++i) {
        if (round.members[i].lease != 0) {
            job_.unused(round.members[i].worker, round.members[i].samples, reasons[i]);
        }
    }
    booking_.abort(job_.engine(), round, reasons);
    job_.dropped();  // once, whatever the number of members
    job_.ring_.riders.put_back(round);
}

void RingJob::RoundEnd::skip_unbegun() {
    while (job_.ring_.rounds.rounds().size() > 1) {
        const Round skipped = job_.ring_.rounds.skip_newest();
        for (const RoundMember& member : skipped.members) {
            if (member.lease != 0) {
                job_.give_back(member.lease, ReturnReason::kStop);  // nobody has worked on it
            }
        }
    }
}

bool RingJob::RoundEnd::finite(std::uint64_t lease) {
    return job_.learner().outcome(job_.lease_out(lease).computed).finite;
}

void RingJob::RoundEnd::refuse(const PushId& push) {
    const RiderGradient refused = job_.ring_.riders.settle(push);
    job_.unused(push.worker, refused.ticket->samples, ReturnReason::kNonFinite);
    job_.dropped();
    booking_.refuse(job_.engine(), *refused.ticket);
    job_.rides_->release(push.worker, 0, *refused.parent);
}

void RingJob::RoundEnd::push(std::uint64_t id) {
    const int index = job_.lease_out(id).worker;
    if (job_.rides_->riding(index)) {
        job_.push({.lease = id, .version = job_.rides_->version(index), .own_s = 0, .record = {}});
        return;
    }
    Worker& member = job_.worker(index);
    member.record.compute_s = member.own_s - member.record.input_s;
    job_.push(
        {.lease = id, .version = computed_on_, .own_s = member.own_s, .record = member.record});
}

}  // namespace cohort
