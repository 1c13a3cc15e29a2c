#include "train/coordinator/push_times.hpp"

#include <algorithm>
#include <cmath>

namespace cohort {

std::string non_finite_reason(double loss_sum, bool finite) {
    if (!std::isfinite(loss_sum)) {
        return "the loss is not finite";
    }
    return finite ? "" : "the gradient is not finite";
}

double push_bytes(const JobContext& parts) {
    return static_cast<double>(parts.graph.parameters().total()) *
           static_cast<double>(wire_bytes(parts.options.wire));
}

IterationRecord record_of(const PushReport& report, const PushSending& sending, double received) {
    const PushTicket& ticket = report.ticket;
    const WorkerTimes& times = report.times;
    const double idle_s = times.exchange_s - times.pull_s + times.lease_s;
    const double wait_s = std::max(0.0, idle_s - sending.before_s);
    const double after_s = std::max(0.0, sending.before_s - idle_s);  // beside what came then
    IterationRecord record{.worker = ticket.id.worker,
                           .iteration = static_cast<std::int64_t>(ticket.id.sequence),
                           .samples = ticket.samples,
                           .version = ticket.version,
                           .input_s = times.input_s,
                           .compute_s = times.compute_s,
                           .push_s = sending.seconds + std::max(0.0, times.buffer_s - after_s),
                           .pull_s = times.pull_s,
                           .wait_s = wait_s,
                           .use = times.use,
                           .telemetry_s = times.telemetry_s};
    const double left_s = times.leaving_s + sending.seconds;
    record.use.tx_bytes_s = left_s > 0 ? sending.bytes / left_s : 0;
    record.use.rx_bytes_s = times.pull_s > 0 ? received / times.pull_s : 0;
    return record;
}

}  // namespace cohort
