#include "data/hdf5/child_trial.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr rlim_t kSeconds = 10;  ///< of processor time
/// Limit by the clock, for a slow file system, or a lock that another thread held at the fork. The
/// trial then has no result.
constexpr unsigned kPatience = 60;
constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU};

/// In the child: makes it die silently by any crash, and not later than its parent.
void be_expendable() {
    for (const int signal : kCrashes) {
        std::signal(signal, SIG_DFL);
    }
    std::signal(SIGALRM, SIG_DFL);
    const rlimit time{.rlim_cur = kSeconds, .rlim_max = kSeconds + 1};
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CPU, &time);
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kPatience);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
}

}  // namespace

void try_in_child(const std::string& where, const std::function<void()>& action) {
    const pid_t child = ::fork();
    if (child < 0) {
        return;  // too many processes: no trial
    }
    if (child == 0) {
        be_expendable();
        try {
            action();
        } catch (...) {
            ::_exit(0);
        }
        ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const bool crashed =
        WIFSIGNALED(status) && std::ranges::find(kCrashes, WTERMSIG(status)) != kCrashes.end();
    if (crashed) {
        fail<FileError>({.where = where,
                         .what = "the file is damaged: HDF5 breaks down over it",
                         .got = WTERMSIG(status) == SIGXCPU
                                    ? fmt::format("no end within {} s in a trial", kSeconds)
                                    : fmt::format("signal {} in a trial", WTERMSIG(status)),
                         .hint = "another copy, or cohort import again"});
    }
}

}  // namespace cohort
