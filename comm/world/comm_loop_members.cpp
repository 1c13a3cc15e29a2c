// Who belongs to the job. Rank 0 learns of a lost worker by itself or from a rank of its host,
// tells its watcher, and spreads what that decides; every rank then lets go of what it had to do
// with the excluded one. A server or rank 0 cannot be spared: their loss ends the job.
//
// A rank of another host that hears nothing of rank 0 cannot tell its death from a link that is
// down. Such a rank is in doubt:
//  1. it waits for rank 0, for twice the stall limit, and no other wait of it is counted
//  2. rank 0, when it lives, excludes the rank after lost_after_s and goes on with the others
//  3. when the link is back, what the rank has sent makes rank 0 ask whether it still runs, and the
//     answer, not the old message, lets it join again (or not, when the job is about to end)
//  4. otherwise the rank leaves alone, without a record, and without MPI_Abort, which would end
//     the job of the others
#include <fmt/format.h>

#include <string>
#include <utility>

#include "comm/world/comm_loop.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {

using namespace std::chrono_literals;

void CommLoop::watch(std::function<void(const RankEvent&)> watcher) {
    const std::lock_guard lock(watcher_mutex_);
    if (watcher || watcher_) {
        excludes_by_itself_ = !watcher;  // its part of the job is over
    }
    watcher_ = std::move(watcher);
}

void CommLoop::exclude(int rank) {
    check_invariant(this->rank() == 0 && rank > 0 && rank < map().size() && rank >= map().servers,
                    "rank 0 excludes workers on other ranks");
    if (auto state = members_.change(rank, true)) {
        static_cast<void>(try_post([this, rank, state = std::move(*state)] {
            tell_membership(state, rank);
            membership_changed();
        }));
    }
}

void CommLoop::admit(int rank) {
    check_invariant(this->rank() == 0 && rank > 0 && rank < map().size(),
                    "rank 0 admits other ranks");
    if (auto state = members_.change(rank, false)) {
        static_cast<void>(try_post([this, rank, state = std::move(*state)] {
            watch_->forget(rank);
            tell_membership(state, rank);
            membership_changed();
        }));
    }
}

/// To all members, and to the one that it is about, which may be frozen.
void CommLoop::tell_membership(const MembershipState& state, int changed) {
    const auto body = encode(state);
    for (int other = 1; other < map().size(); ++other) {
        const bool out = state.excluded[static_cast<std::size_t>(other)] != 0;
        if ((!out || other == changed) && watch_->alive(other)) {
            control_->send(other, {.type = PacketType::kMembership}, body);
        }
    }
}

void CommLoop::membership_changed() {
    for (int other = 0; other < map().size(); ++other) {
        std::uint64_t& known = left_alone_at_[static_cast<std::size_t>(other)];
        const std::uint64_t lost_at = members_.lost_at(other);
        if (lost_at == known) {
            continue;
        }
        known = lost_at;
        control_->leave_alone(other);
        transfers_->leave_alone(other);
        if (other == rank()) {
            log_warn("rank {}: it has been excluded from the job, until rank 0 admits it again",
                     rank());
        }
    }
    if (rank() == 0) {
        conclude_agreements();
    }
    for (Poller* poller : pollers_) {
        poller->members_changed();
    }
}

/// Whether what this rank's application sends to `rank` leaves.
bool CommLoop::reaches(int rank) const noexcept {
    return !members_.excluded(rank) && !members_.excluded(this->rank());
}

bool CommLoop::tell_watcher(const RankEvent& event) {
    std::function<void(const RankEvent&)> watcher;
    {
        const std::lock_guard lock(watcher_mutex_);
        watcher = watcher_;
    }
    if (watcher) {
        watcher(event);
    }
    return static_cast<bool>(watcher);
}

/// As far as it is known here: whether the job goes on without a worker is rank 0's decision.
bool CommLoop::ends_the_job(int rank) const {
    if (rank == 0 || rank < map().servers) {
        return true;
    }
    const std::lock_guard lock(watcher_mutex_);
    return this->rank() == 0 && !watcher_ && !excludes_by_itself_;
}

/// Whether this rank may tell how the job has ended: rank 0, or one beside it when it is dead or
/// frozen.
bool CommLoop::speaks(Instant now) const {
    return rank() == 0 ||
           (watch_ && watch_->beside(0) && (!watch_->alive(0) || watch_->silent(0, now)));
}

void CommLoop::doubt(Instant now, const std::string& reason) {
    if (!cut_off_since_) {
        cut_off_since_ = now;
        log_warn("rank {}: {}; this rank is cut off or rank 0 has died: it waits for {:.0f} s more",
                 rank(), reason, 2 * options_.stall_limit_s);
    }
}

/// Ends the doubt, or this process when it has lasted too long.
void CommLoop::look_for_rank_0(Instant now) {
    if (!cut_off_since_) {
        return;
    }
    const std::chrono::duration<double> doubted = now - *cut_off_since_;
    if (control_->last_heard(0) > *cut_off_since_) {
        cut_off_since_.reset();
        board_.restart();
        log_warn("rank {}: rank 0 is heard again, {:.1f} s after it was missed", rank(),
                 doubted.count());
    } else if (doubted.count() > 2 * options_.stall_limit_s) {
        end_here({ExitCode::kPeer,
                  fmt::format("cut off: rank 0 was not heard of for {:.0f} s",
                              (now - control_->last_heard(0)) / 1.0s),
                  rank()});
    }
}

void CommLoop::lost(const PeerWatch::Loss& loss) {
    const Instant now = std::chrono::steady_clock::now();
    if (loss.rank == 0 && !speaks(now)) {
        doubt(now, loss.reason);
        return;
    }
    if (ends_the_job(loss.rank)) {
        end_here({ExitCode::kPeer, loss.reason, rank()});
    }
    if (rank() != 0) {
        control_->send(0, {.type = PacketType::kSuspect},
                       encode(Suspect{loss.rank, loss.dead, loss.reason}));
    } else if (excludes_by_itself_) {
        log_warn("rank 0: {}; the job ends without it", loss.reason);
        exclude(loss.rank);
    } else {
        static_cast<void>(tell_watcher({.rank = loss.rank,
                                        .kind = RankEvent::Kind::kSilent,
                                        .dead = loss.dead,
                                        .reason = loss.reason}));
    }
}

void CommLoop::look_after_members(Instant now) {
    if (!watch_ || over_) {
        return;
    }
    for (const PeerWatch::Loss& loss : watch_->check(now)) {
        lost(loss);
    }
    look_for_rank_0(now);
}

}  // namespace cohort
