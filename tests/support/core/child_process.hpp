#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <system_error>

namespace cohort {

/// Runs `action` in a child process, which has rights and limits of its own. True when it returns
/// true and the process also ends well, HDF5's clean-up at exit included.
inline bool in_child(const std::function<bool()>& action) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        bool good = false;
        try {
            good = action();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "child: %s\n", error.what());
        }
        if (::geteuid() != ::getuid()) {  // after become_nobody()
            good = ::seteuid(::getuid()) == 0 && good;
            ::prctl(PR_SET_DUMPABLE, 1);  // the leak check at exit needs it
        }
        std::exit(good ? 0 : 1);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// A process forked from this one that does nothing until it is killed by the destructor, as a data
/// loader's worker between two batches.
class IdleChild {
public:
    IdleChild() : pid_(::fork()) {
        if (pid_ < 0) {
            throw std::system_error(errno, std::generic_category(), "fork");
        }
        while (pid_ == 0) {
            ::pause();
        }
    }
    ~IdleChild() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    IdleChild(const IdleChild&) = delete;
    IdleChild& operator=(const IdleChild&) = delete;

private:
    pid_t pid_;
};

/// In a child process: from now on files cannot grow beyond this, as on a full disk; again without
/// a limit: RLIM_INFINITY.
inline void limit_file_size(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
}

/// In a child process: gives up root's rights over files. False when that fails.
inline bool become_nobody() {
    return ::geteuid() != 0 || ::seteuid(65534) == 0;
}

}  // namespace cohort
