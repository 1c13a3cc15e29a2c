#include "cohort/core/clock.hpp"

#include <ctime>

namespace cohort {

Clock::Seconds ThreadCpuClock::now() const {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return Seconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

}  // namespace cohort
