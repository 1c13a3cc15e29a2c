#include "comm/world/peer_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/base/running_time.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr auto kCheckPeriod = 100ms;
/// Heartbeats that may fail to come before a link is in doubt.
constexpr int kBeatsInDoubt = 3;

}  // namespace

PeerWatch::PeerWatch(const StartupRoster& roster, double lost_after_s, ControlChannel& control,
                     const Members& members)
    : map_(roster.map),
      lost_after_(lost_after_s),
      beat_every_(std::min(1.0, lost_after_s / 4)),
      control_(control),
      members_(members),
      processes_(map_, roster.same_pids),
      connections_(roster.addresses),
      gone_(map_.ranks.size()),
      known_(map_.ranks.size()),
      last_check_(std::chrono::steady_clock::now()),
      last_look_(last_check_) {
    const int own_rank = roster.own_rank;
    for (int rank = 0; rank < map_.size(); ++rank) {
        if (rank != own_rank && (own_rank == 0 || rank == 0)) {
            partners_.push_back(rank);
        }
    }
}

bool PeerWatch::silent(int rank, Instant now) const {
    return now - control_.last_heard(rank) > lost_after_;
}

bool PeerWatch::host_closed(int rank) const {
    return connections_.closed(map_.ranks[static_cast<std::size_t>(rank)].node);
}

bool PeerWatch::uncertain(int rank, Instant now) const {
    return now - control_.last_heard(rank) > kBeatsInDoubt * beat_every_;
}

PeerWatch::Loss PeerWatch::death(int rank) const {
    return {.rank = rank, .dead = true, .reason = fmt::format("{} has died", map_.describe(rank))};
}

std::optional<PeerWatch::Loss> PeerWatch::find_dead() const {
    for (const int rank : processes_.ranks()) {
        if (!members_.excluded(rank) && processes_.ended(rank)) {
            return death(rank);
        }
    }
    return std::nullopt;
}

void PeerWatch::find_new_dead(std::vector<Loss>& losses) {
    connections_.look();
    for (const int rank : partners_) {  // there are connections to them: heartbeats take them
        if (!known(rank).lost && host_closed(rank) && note(rank)) {
            gone_[static_cast<std::size_t>(rank)] = true;
            losses.push_back(death(rank));
        }
    }
    for (const int rank : processes_.ranks()) {
        if (!known(rank).lost && processes_.ended(rank) && note(rank)) {
            losses.push_back(death(rank));
        }
    }
}

void PeerWatch::find_silent(Instant now, std::vector<Loss>& losses) {
    for (const int rank : partners_) {
        if (members_.excluded(rank)) {
            continue;
        }
        if (control_.last_heard(rank) > known(rank).lost_since && alive(rank)) {
            known(rank).lost = false;  // it was not excluded, and is heard of again
        }
        if (silent(rank, now) && note(rank)) {
            const std::chrono::duration<double> silence = now - control_.last_heard(rank);
            losses.push_back(
                {.rank = rank,
                 .dead = false,
                 .reason = fmt::format("{} is lost: nothing was heard of it for {:.1f} s",
                                       map_.describe(rank), silence.count())});
        }
    }
}

bool PeerWatch::note(int rank) {
    if (members_.excluded(rank) || known(rank).lost) {
        return false;
    }
    known(rank).lost = true;
    known(rank).lost_since = std::chrono::steady_clock::now();
    return true;
}

void PeerWatch::probe(int rank) {
    control_.send(rank, {.type = PacketType::kProbe,
                         .sequence = static_cast<std::uint32_t>(members_.lost_at(rank))});
}

void PeerWatch::ask(int rank) {
    gone_[static_cast<std::size_t>(rank)] = false;  // its connection may have ended otherwise
    if (alive(rank) && !std::exchange(known(rank).asked, true)) {
        probe(rank);
    }
}

bool PeerWatch::returned(int rank, std::uint32_t epoch) {
    return epoch == static_cast<std::uint32_t>(members_.lost_at(rank)) &&
           !std::exchange(known(rank).returned, true);
}

void PeerWatch::forget(int rank) {
    known(rank) = {};
    control_.heard(rank);
}

// A rank that is excluded and silent is sent nothing; one that is heard again must not take this
// rank for lost, and a probe is a sign of life too.
void PeerWatch::beat(Instant now) {
    for (const int rank : partners_) {
        if (now - control_.last_sent(rank) <= beat_every_) {
            continue;
        }
        if (!members_.excluded(rank)) {
            control_.send(rank, {.type = PacketType::kHeartbeat});
        } else if (known(rank).asked) {
            known(rank).asked = !silent(rank, now);
            probe(rank);
        }
    }
}

std::vector<PeerWatch::Loss> PeerWatch::check(Instant now) {
    if (now - last_check_ > kOwnPause) {
        control_.forgive(now - last_check_, now);
    }
    last_check_ = now;
    std::vector<Loss> losses;
    if (now - last_look_ >= kCheckPeriod) {
        last_look_ = now;
        beat(now);
        find_new_dead(losses);
        find_silent(now, losses);
    }
    return losses;
}

}  // namespace cohort
