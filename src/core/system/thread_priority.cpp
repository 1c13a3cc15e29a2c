#include "core/system/thread_priority.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {

void lower_thread_priority(std::string_view who, int niceness) {
    const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
    if (::setpriority(PRIO_PROCESS, thread, niceness) != 0) {
        log_warn("{} keeps its priority: {}", who, errno_text(errno));
    }
}

}  // namespace cohort
