#include "train/faults/rank_faults.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "cohort/core/clock.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

constexpr double kLookSeconds = 0.01;

/// The smallest limit that is active; 0: none.
double pace_at(const std::vector<Injection>& all, int rank, double seconds) {
    double least = std::numeric_limits<double>::infinity();
    for (const Injection& one : all) {
        if (one.rank == rank && one.bytes_per_second > 0 && one.holds(seconds)) {
            least = std::min(least, one.bytes_per_second);
        }
    }
    return least < std::numeric_limits<double>::infinity() ? least : 0;
}

/// The child uses only functions that are safe between fork and exec in a process with threads.
[[noreturn]] void wake_later(pid_t parent, timespec time) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::nanosleep(&time, &time) != 0) {
    }
    if (::getppid() == parent) {
        ::kill(parent, SIGCONT);
    }
    ::_exit(0);
}

void freeze(double seconds) {
    const auto whole = static_cast<std::time_t>(seconds);
    const timespec time{.tv_sec = whole,
                        .tv_nsec = static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) {
        log_warn("--inject: this rank cannot be frozen, no process could be started");
        return;
    }
    if (child == 0) {
        wake_later(self, time);
    }
    ::kill(self, SIGSTOP);
    ::waitpid(child, nullptr, 0);
}

/// False when it is time to stop.
bool sleep(const std::stop_token& stop, double seconds) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    return !wake.wait_for(lock, stop, std::chrono::duration<double>(seconds),
                          [&stop] { return stop.stop_requested(); });
}

}  // namespace

std::vector<RankFault> rank_faults(const std::vector<Injection>& all, int rank) {
    std::vector<RankFault> faults;
    std::set<double> changes;  // times at which the limit changes
    for (const Injection& one : all) {
        if (one.rank != rank) {
            continue;
        }
        if (one.bytes_per_second > 0) {
            changes.insert(one.from_s);
            changes.insert(one.to_s.value_or(one.from_s));
        }
        if (one.freeze_from_s) {
            faults.push_back({*one.freeze_from_s, RankFault::Kind::kFreeze,
                              one.freeze_to_s - *one.freeze_from_s});
        }
        if (one.kill_s) {
            faults.push_back({*one.kill_s, RankFault::Kind::kKill});
        }
    }
    for (const double at : changes) {
        faults.push_back({at, RankFault::Kind::kPace, pace_at(all, rank, at)});
    }
    std::ranges::stable_sort(faults, {}, &RankFault::at_s);
    return faults;
}

FaultThread::FaultThread(std::vector<RankFault> faults, std::function<bool()> begun,
                         std::function<void(double bytes_per_second)> set_pace)
    : faults_(std::move(faults)), begun_(std::move(begun)), set_pace_(std::move(set_pace)) {
    if (!faults_.empty()) {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
}

void FaultThread::run(const std::stop_token& stop) const {
    while (!begun_()) {
        if (!sleep(stop, kLookSeconds)) {
            return;
        }
    }
    const SteadyClock clock;
    const Clock::Seconds start = clock.now();
    for (const RankFault& fault : faults_) {
        if (!sleep(stop, std::max(0.0, fault.at_s - (clock.now() - start).count()))) {
            return;
        }
        switch (fault.kind) {
            case RankFault::Kind::kPace: set_pace_(fault.value); break;
            case RankFault::Kind::kFreeze:
                log_warn("--inject: this rank stands still for {:.1f} s", fault.value);
                freeze(fault.value);
                break;
            case RankFault::Kind::kKill:
                log_warn("--inject: this rank kills itself");
                ::kill(::getpid(), SIGKILL);
                break;
        }
    }
}

}  // namespace cohort
