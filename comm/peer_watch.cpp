#include "peer_watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cerrno>

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 100ms;
/// A pause of this thread that was not a wait for others: the process was stopped or starved.
constexpr auto kOwnPause = 500ms;

int open_process(std::int64_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U));
}

}  // namespace

PeerWatch::PeerWatch(const RankMap& map, int own_rank, const std::vector<int>& same_pids,
                     double lost_after_s, ControlChannel& control)
    : map_(map),
      lost_after_(lost_after_s),
      beat_every_(std::min(1.0, lost_after_s / 4)),
      control_(control),
      last_check_(std::chrono::steady_clock::now()),
      last_look_(last_check_) {
    for (const int rank : same_pids) {
        processes_.push_back({rank, open_process(map.ranks[static_cast<std::size_t>(rank)].pid)});
    }
    for (int rank = 0; rank < map.size(); ++rank) {
        if (rank != own_rank && (own_rank == 0 || rank == 0)) {
            partners_.push_back(rank);
        }
    }
}

PeerWatch::~PeerWatch() {
    for (const Process& process : processes_) {
        if (process.descriptor >= 0) {
            ::close(process.descriptor);
        }
    }
}

bool PeerWatch::dead(const Process& process) const {
    if (process.descriptor >= 0) {
        pollfd look{.fd = process.descriptor, .events = POLLIN, .revents = 0};
        return ::poll(&look, 1, 0) > 0;  // readable from the end of the process on
    }
    const auto pid = static_cast<pid_t>(map_.ranks[static_cast<std::size_t>(process.rank)].pid);
    return ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool PeerWatch::alive(int rank) const {
    return std::none_of(processes_.begin(), processes_.end(), [&](const Process& process) {
        return process.rank == rank && dead(process);
    });
}

std::optional<PeerWatch::Loss> PeerWatch::find_dead() const {
    for (const Process& process : processes_) {
        if (dead(process)) {
            return Loss{process.rank, fmt::format("{} has died", map_.describe(process.rank))};
        }
    }
    return std::nullopt;
}

std::optional<PeerWatch::Loss> PeerWatch::find_silent(Instant now) const {
    for (const int rank : partners_) {
        const std::chrono::duration<double> silence = now - control_.last_heard(rank);
        if (silence > lost_after_) {
            return Loss{rank, fmt::format("{} is lost: nothing was heard of it for {:.1f} s",
                                          map_.describe(rank), silence.count())};
        }
    }
    return std::nullopt;
}

void PeerWatch::beat(Instant now) {
    for (const int rank : partners_) {
        if (now - control_.last_sent(rank) > beat_every_) {
            control_.send(rank, {.type = PacketType::kHeartbeat});
        }
    }
}

std::optional<PeerWatch::Loss> PeerWatch::check(Instant now) {
    if (now - last_check_ > kOwnPause) {
        control_.forgive(now - last_check_, now);
    }
    last_check_ = now;
    if (now - last_look_ < kLookEvery) {
        return std::nullopt;
    }
    last_look_ = now;
    beat(now);
    if (auto loss = find_dead()) {
        return loss;
    }
    return find_silent(now);
}

}  // namespace cohort
