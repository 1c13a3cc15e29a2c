#include "jobs/cli/stop_signal.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

/// One request may arrive as several TERMs: launchers send it to the process and to its group.
constexpr std::chrono::seconds kOneRequest{1};

const char* name_of(int number) {
    return number == SIGINT ? "INT" : number == SIGTERM ? "TERM" : "USR1";
}

}  // namespace

StopSignal::StopSignal(std::string what) : what_(std::move(what)) {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
        sigaddset(&set, number);
    }
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // Launched with USR1 ignored, so that one that comes too early does not kill.
    std::signal(SIGUSR1, SIG_DFL);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC);
    quit_ = eventfd(0, EFD_CLOEXEC);
    check_invariant(signals_ >= 0 && quit_ >= 0, "signalfd and eventfd are available");
    thread_ = std::thread([this] { watch(); });
}

StopSignal::~StopSignal() {
    const std::uint64_t one = 1;
    if (write(quit_, &one, sizeof one) != sizeof one) {
        thread_.detach();
        return;
    }
    thread_.join();
    close(signals_);
    close(quit_);
}

void StopSignal::watch() {
    std::array<pollfd, 2> sources{pollfd{signals_, POLLIN, 0}, pollfd{quit_, POLLIN, 0}};
    bool interrupted = false;
    std::optional<SteadyTime> terminated;
    while (true) {
        if (poll(sources.data(), sources.size(), -1) < 0) {
            continue;
        }
        if (sources[1].revents != 0) {
            return;
        }
        signalfd_siginfo info{};
        if (read(signals_, &info, sizeof info) != sizeof info) {
            continue;
        }
        const int number = static_cast<int>(info.ssi_signo);
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
