#include "core/system/process_usage.hpp"

#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

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
            std::istringstream text(line.substr(6));
            std::uint64_t kibibytes = 0;
            text >> kibibytes;
            return kibibytes * 1024;
        }
    }
    return 0;
}

}  // namespace cohort
