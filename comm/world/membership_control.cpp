#include "comm/world/membership_control.hpp"

#include <utility>

#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {

void MembershipControl::watch(std::function<void(const RankEvent&)> watcher) {
    const std::lock_guard lock(mutex_);
    if (watcher || watcher_) {
        excludes_by_itself_ = !watcher;  // the watcher's part of the job is over
    }
    watcher_ = std::move(watcher);
}

void MembershipControl::end_watch() {
    const std::lock_guard lock(mutex_);
    excludes_by_itself_ = excludes_by_itself_ || watcher_;
}

void MembershipControl::exclude(int rank) {
    check_invariant(rank >= network_.map().servers, "rank 0 excludes workers on other ranks");
    change(rank, true);
}

void MembershipControl::admit(int rank) {
    change(rank, false);
}

void MembershipControl::change(int rank, bool exclude) {
    check_invariant(network_.rank() == 0 && rank > 0 && rank < network_.map().size(),
                    "rank 0 excludes and admits other ranks");
    if (auto state = network_.members.change(rank, exclude)) {
        static_cast<void>(commands_.try_post([this, rank, exclude, state = std::move(*state)] {
            if (!exclude) {
                network_.watch->forget(rank);
            }
            tell(state, rank);
            changed();
        }));
    }
}

/// To all members, and to the rank that it is about, which may be frozen.
void MembershipControl::tell(const MembershipState& state, int changed) {
    const auto body = encode(state);
    for (int other = 1; other < network_.map().size(); ++other) {
        const bool out = state.excluded[static_cast<std::size_t>(other)] != 0;
        if ((!out || other == changed) && network_.watch->alive(other)) {
            network_.control->send(other, {.type = PacketType::kMembership}, body);
        }
    }
}

void MembershipControl::apply(const MembershipState& state) {
    network_.members.apply(state);
    changed();
}

void MembershipControl::changed() {
    abandoned_at_.resize(network_.map().ranks.size());
    for (int other = 0; other < network_.map().size(); ++other) {
        const std::uint64_t lost_at = network_.members.lost_at(other);
        if (lost_at == std::exchange(abandoned_at_[static_cast<std::size_t>(other)], lost_at)) {
            continue;
        }
        network_.abandon(other);
        if (other == network_.rank()) {
            log_warn("rank {}: it has been excluded from the job, until rank 0 admits it again",
                     other);
        }
    }
    if (network_.rank() == 0) {
        agreement_.conclude();
    }
    progress_.members_changed();
}

void MembershipControl::tell_watcher(const RankEvent& event) {
    std::function<void(const RankEvent&)> watcher;
    {
        const std::lock_guard lock(mutex_);
        watcher = watcher_;
    }
    if (watcher) {
        watcher(event);
    }
}

bool MembershipControl::ends_the_job(int rank) const {
    if (rank == 0 || rank < network_.map().servers) {
        return true;
    }
    const std::lock_guard lock(mutex_);
    return network_.rank() == 0 && !watcher_ && !excludes_by_itself_;
}

void MembershipControl::suspect(const PeerWatch::Loss& loss) {
    if (network_.watch->note(loss.rank)) {
        lost(loss);
    }
}

void MembershipControl::answered(int rank, std::uint32_t epoch) {
    if (excluded(rank) && network_.watch->returned(rank, epoch)) {
        tell_watcher({.rank = rank,
                      .kind = RankEvent::Kind::kReturned,
                      .reason = network_.map().describe(rank) + " has come back"});
    }
}

void MembershipControl::lost(PeerWatch::Loss loss) {
    if (loss.rank == 0 && !loss.dead && succession_.allowed() && network_.watch->end_process(0)) {
        loss.dead = true;  // it was frozen, and would go on some day as if nothing had happened
        loss.reason += ", it was ended";
    }
    const Instant now = std::chrono::steady_clock::now();
    if (loss.rank == 0 && !loss.dead && !network_.speaks(now)) {
        cut_off_.begin(now, loss.reason);
        return;
    }
    if (ends_the_job(loss.rank)) {
        // Rank 0 need not know that a server is dead: one that is cut off can do nothing alone.
        const bool survives = succession_.active() || succession_.allowed();
        if (survives && (loss.dead || network_.rank() == 0)) {
            succession_.begin(loss);
            return;
        }
        job_end_.end({ExitCode::kPeer, loss.reason, network_.rank()});
    }
    if (network_.rank() != 0) {
        network_.control->send(0, {.type = PacketType::kSuspect},
                               encode(Suspect{loss.rank, loss.dead, loss.reason}));
    } else if (excludes_by_itself_) {
        log_warn("rank 0: {}; the job ends without it", loss.reason);
        exclude(loss.rank);
    } else {
        tell_watcher({.rank = loss.rank,
                      .kind = RankEvent::Kind::kSilent,
                      .dead = loss.dead,
                      .reason = loss.reason});
    }
}

void MembershipControl::look_after(Instant now) {
    if (!network_.watch || agreement_.job_over()) {
        return;
    }
    if (succession_.active()) {
        succession_.look(now);
        return;
    }
    for (const PeerWatch::Loss& loss : network_.watch->check(now)) {
        lost(loss);
    }
    if (const auto failure = cut_off_.look(now)) {
        job_end_.end(*failure);
    }
}

}  // namespace cohort
