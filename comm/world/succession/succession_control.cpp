#include "comm/world/succession/succession_control.hpp"

#include <chrono>
#include <set>
#include <utility>

#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {

using namespace std::chrono_literals;

void SuccessionControl::begin(const PeerWatch::Loss& loss) {
    const Instant now = std::chrono::steady_clock::now();
    if (!succession_) {
        std::set<int> gone{loss.rank};
        for (int rank = 0; rank < network_.map().size(); ++rank) {
            if (network_.members.excluded(rank)) {
                gone.insert(rank);
            }
        }
        end_world(loss.reason);
        succession_->begin(gone, loss.reason, now);
    } else {
        succession_->lost(loss.rank, now);
    }
    advance();
}

void SuccessionControl::heard(int from, const SuccessionNote& note) {
    if (!active_ && !allowed()) {  // this rank has nothing to go on with
        job_end_.end({ExitCode::kPeer, note.reason, network_.rank()});
    }
    const Instant now = std::chrono::steady_clock::now();
    if (!succession_) {
        end_world(note.reason);
    }
    succession_->heard(from, note, now);
    advance();
}

void SuccessionControl::look(Instant now) {
    for (int rank = 0; rank < network_.map().size(); ++rank) {
        if (rank != network_.rank() && !lives(rank, now)) {
            succession_->lost(rank, now);
        }
    }
    succession_->look(now);
    advance();
}

/// False for a rank that is known to have died, or that has not told this one anything since the
/// World ended, while its host has closed all connections: a living rank would have opened one.
bool SuccessionControl::lives(int rank, Instant now) const {
    constexpr auto kAnswer = 3s;  // MPI may hold its thread for two seconds after a death
    const bool late = now - begun_ > kAnswer && network_.control->last_heard(rank) < begun_;
    return network_.watch->alive(rank) && !(late && network_.watch->host_closed(rank));
}

/// Sends what there is to tell, also to ranks that count as lost: those that are only cut off or
/// frozen may hear of it later. Takes notice of what has been decided.
void SuccessionControl::advance() {
    for (const Succession::Outgoing& one : succession_->take()) {
        if (network_.watch->alive(one.to)) {
            network_.control->send(one.to, {.type = PacketType::kSuccession}, encode(one.note));
        }
    }
    if (succession_->left_out()) {
        exclude(true);
        job_end_.end({ExitCode::kPeer,
                      succession_->reason() + ": the others go on without this rank",
                      network_.rank()});
    }
    if (const auto& ranks = succession_->decision(); ranks && !std::exchange(told_, true)) {
        survivors_.set_value({.ranks = *ranks, .reason = succession_->reason()});
    }
}

void SuccessionControl::end_world(const std::string& reason) {
    log_warn("rank {}: {}; the ranks that are left agree on who goes on", network_.rank(), reason);
    active_ = true;
    begun_ = std::chrono::steady_clock::now();
    succession_.emplace(network_.rank(), network_.map().size(), patience_);
    exclude(false);
    for (Mailbox& mailbox : ports_.mailboxes) {
        mailbox.close(reason);
    }
    agreement_.give_up(reason);
    progress_.members_changed();
}

/// As this rank sees it: nothing that its roles send leaves, and rings break.
void SuccessionControl::exclude(bool own_rank_too) {
    std::uint64_t epoch = 0;
    do {  // the coordinator's thread may exclude a worker at the same time
        epoch = network_.members.epoch() + 1;
        MembershipState state{.epoch = epoch, .excluded = {}, .lost_at = {}};
        for (int rank = 0; rank < network_.map().size(); ++rank) {
            const bool out = rank != network_.rank() || own_rank_too;
            state.excluded.push_back(out ? 1 : 0);
            state.lost_at.push_back(out ? epoch : network_.members.lost_at(rank));
        }
        network_.members.apply(state);
    } while (network_.members.epoch() != epoch);
    for (int rank = 0; rank < network_.map().size(); ++rank) {
        if (rank != network_.rank()) {
            network_.abandon(rank);
        }
    }
}

}  // namespace cohort
