#include "train/coordinator/servers/push_arrivals.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {

std::optional<PushArrivals::Complete> PushArrivals::reported(const PushReport& report,
                                                             Clock::Seconds now) {
    Arriving& arriving = arriving_[report.ticket.id];
    arriving.report = report;
    arriving.reported_at = now;
    return look_at(report.ticket.id, now);
}

std::optional<PushArrivals::Complete> PushArrivals::staged(const PushReceived& staged,
                                                           Clock::Seconds now) {
    Arriving& arriving = arriving_[staged.push];
    ++arriving.staged;
    arriving.dot += staged.reference_dot;
    arriving.squares += staged.reference_squares;
    return look_at(staged.push, now);
}

std::optional<PushArrivals::Complete> PushArrivals::look_at(const PushId& push,
                                                            Clock::Seconds now) {
    const auto found = arriving_.find(push);
    const Arriving& arriving = found->second;
    if (!arriving.report || (arriving.staged < servers_ && arriving.report->slot < 0)) {
        return std::nullopt;
    }
    Complete complete{.report = *arriving.report,
                      .sending_s = (now - arriving.reported_at).count()};
    complete.report.ticket.reference_dot = arriving.dot;
    complete.report.ticket.reference_norm = std::sqrt(arriving.squares);
    arriving_.erase(found);
    const auto last = sent_.find(push.worker);
    if (last != sent_.end() && last->second.push.incarnation == push.incarnation &&
        last->second.push.sequence + 1 == push.sequence) {
        complete.before_s = last->second.seconds;
    }
    sent_[push.worker] = {.push = push, .seconds = complete.sending_s};
    return complete;
}

std::vector<PushId> PushArrivals::drop(int worker) {
    std::vector<PushId> dropped;
    for (const auto& [push, arriving] : arriving_) {
        if (push.worker == worker) {
            dropped.push_back(push);
        }
    }
    for (const PushId& push : dropped) {
        arriving_.erase(push);
    }
    return dropped;
}

}  // namespace cohort
