#include "jobs/cli/stop_signal.hpp"

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/log.hpp"

namespace cohort {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

/// One request may arrive as several TERMs: launchers send it to the process and to its group.
constexpr std::chrono::seconds kOneRequest{1};

const char* name_of(int number) {
    return number == SIGINT ? "INT" : number == SIGTERM ? "TERM" : "USR1";
}

sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
        sigaddset(&set, number);
    }
    return set;
}

}  // namespace

StopSignal::StopSignal(std::string what) : what_(std::move(what)) {
    const sigset_t set = watched_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // Launched with USR1 ignored, so that one that comes too early does not kill.
    std::signal(SIGUSR1, SIG_DFL);
    thread_ = std::thread([this] { watch(); });
}

StopSignal::~StopSignal() {
    quitting_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);  // wakes the thread
    thread_.join();
}

void StopSignal::watch() {
    const sigset_t set = watched_signals();
    bool interrupted = false;
    std::optional<SteadyTime> terminated;
    for (int number = 0; sigwait(&set, &number) == 0 && !quitting_;) {
        if (number == SIGINT && interrupted) {
            std::_Exit(130);
        }
        interrupted = interrupted || number == SIGINT;
        if (number == SIGTERM) {
            const SteadyTime now = std::chrono::steady_clock::now();
            if (terminated && now - *terminated > kOneRequest) {
                std::_Exit(143);
            }
            terminated = terminated.value_or(now);
        }
        if (!requested_.exchange(true)) {
            log_warn("signal {}: {}{}", name_of(number), what_,
                     number == SIGINT    ? " (Ctrl-C again ends at once)"
                     : number == SIGTERM ? " (TERM again ends at once)"
                                         : "");
        }
    }
}

}  // namespace cohort
