#include "train/coordinator/roster.hpp"

#include <algorithm>

#include "train/protocol/comm_context.hpp"

namespace cohort {

Roster::Roster(CommContext comm, int max_lost) : comm_(comm), losses_(comm.map, max_lost) {
    for (int rank = 0; rank < comm_.map.size(); ++rank) {
        at_work_.push_back(rank);
    }
}

void Roster::watch() {
    if (comm_.membership == nullptr) {
        return;
    }
    Mailbox& mailbox = comm_.messenger.mailbox(Port::kCoordinator);
    const Address here{comm_.messenger.rank(), Port::kCoordinator};
    comm_.membership->watch([&mailbox, here](const RankEvent& event) {
        mailbox.put({.from = here,
                     .kind = static_cast<std::uint16_t>(MessageKind::kRankEvent),
                     .body = encode(RankNews{.rank = event.rank,
                                             .returned = event.kind == RankEvent::Kind::kReturned,
                                             .dead = event.dead,
                                             .reason = event.reason})});
    });
}

void Roster::stop_watching() const {
    if (comm_.membership != nullptr) {
        comm_.membership->watch({});
    }
}

RankReport Roster::report(const RankNews& news) const {
    return {.rank = news.rank,
            .worker = comm_.map.worker_of_rank(news.rank),
            .returned = news.returned,
            .reason = news.reason.empty() ? comm_.map.describe(news.rank) : news.reason,
            .live = losses_.live()};
}

bool Roster::lost(int rank) {
    if (!losses_.lost(rank)) {
        return false;
    }
    comm_.membership->exclude(rank);
    std::erase(at_work_, rank);
    return true;
}

bool Roster::returned(int rank) {
    if (!losses_.returned(rank)) {
        return false;
    }
    comm_.membership->admit(rank);
    at_work_.push_back(rank);
    return true;
}

void Roster::stop_workers() {
    for (int worker = 0; worker < comm_.map.workers() && !workers_stopped_; ++worker) {
        if (!losses_.is_lost(comm_.map.rank_of_worker(worker))) {
            send_worker(comm_, worker, MessageKind::kStop, Empty());
        }
    }
    workers_stopped_ = true;
}

void Roster::reported(const Message& message) {
    reports_.push_back(decode<Farewell>(message.body));
    std::erase(at_work_, message.from.rank);
}

std::optional<double> Roster::cpu_seconds() const {
    if (reports_.empty()) {
        return std::nullopt;
    }
    double seconds = 0;
    for (const Farewell& report : reports_) {
        seconds += report.cpu_s;
    }
    return seconds;
}

void Roster::summarize(TrainSummary& summary) const {
    summary.workers = comm_.map.workers();
    summary.servers = comm_.map.servers;
    summary.losses.workers = losses_.times_lost();
    summary.losses.returned = losses_.times_returned();
    summary.losses.story = losses_.story();
    for (const Farewell& report : reports_) {
        summary.arena_bytes = std::max(summary.arena_bytes, report.arena_bytes);
        summary.peak_bytes = std::max(summary.peak_bytes, report.peak_bytes);
        summary.staging_bytes = std::max(summary.staging_bytes, report.staging_bytes);
        summary.snapshot_bytes = std::max(summary.snapshot_bytes, report.snapshot_bytes);
        summary.bytes_sent += report.bytes_sent;
        summary.bytes_received += report.bytes_received;
        summary.comm_cpu_seconds += report.comm_cpu_s;
    }
}

}  // namespace cohort
