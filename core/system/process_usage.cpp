#include "core/system/process_usage.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {

double process_cpu_seconds() noexcept {
    rusage usage{};
    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return 0;
    }
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t process_peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) {
            return std::stoull(line.substr(6)) * 1024;
        }
    }
    return 0;
}

void lower_thread_priority(std::string_view who, int niceness) {
    const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
    if (::setpriority(PRIO_PROCESS, thread, niceness) != 0) {
        log_warn("{} keeps its priority: {}", who, errno_text(errno));
    }
}

void ask_for_short_slices() noexcept {
    // struct sched_attr of <linux/sched/types.h>, which glibc's <sched.h> excludes.
    struct {
        std::uint32_t size = 48;
        std::uint32_t policy = 0;
        std::uint64_t flags = 0;
        std::int32_t nice = 0;
        std::uint32_t priority = 0;
        std::uint64_t runtime_ns = 0;  // under SCHED_OTHER the slice
        std::uint64_t deadline_ns = 0;
        std::uint64_t period_ns = 0;
    } attributes;
    if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 &&
        attributes.policy == SCHED_OTHER) {
        attributes.runtime_ns = 100'000;  // the kernel's least
        ::syscall(SYS_sched_setattr, 0, &attributes, 0);
    }
}

}  // namespace cohort
