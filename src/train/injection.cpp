#include "injection.hpp"

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

namespace cohort {
namespace {

/// Shorter sleeps cost more in waking up than they say.
constexpr Clock::Seconds kShortestSleep{1e-3};

}  // namespace

Clock::Seconds ThreadCpuClock::now() const {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return Seconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

Injector::Injector(const std::vector<Injection>& all, int rank, std::shared_ptr<const Clock> wall,
                   std::shared_ptr<const Clock> busy, Sleep sleep)
    : wall_(std::move(wall)), busy_(std::move(busy)), sleep_(std::move(sleep)) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(mine_),
                 [rank](const Injection& one) { return one.rank == rank; });
    if (!busy_) {
        busy_ = std::make_shared<ThreadCpuClock>();
    }
    if (!sleep_) {
        sleep_ = [](Clock::Seconds time) { std::this_thread::sleep_for(time); };
    }
}

void Injector::start() {
    started_ = wall_->now();
}

void Injector::begin_step() {
    if (!mine_.empty()) {
        mark_ = busy_->now();
    }
}

void Injector::pause() {
    if (mine_.empty()) {
        return;
    }
    const Clock::Seconds now = wall_->now();
    const double speed = share(now - started_);
    if (speed < 1) {
        debt_ += (busy_->now() - mark_) * (1 / speed - 1);
        if (debt_ >= kShortestSleep) {
            sleep_(debt_);
            debt_ -= wall_->now() - now;
        }
    } else {
        debt_ = Clock::Seconds(0);
    }
    mark_ = busy_->now();
}

double Injector::share(Clock::Seconds now) const noexcept {
    double least = 1;
    for (const Injection& one : mine_) {
        if (now.count() >= one.from_s && (!one.to_s || now.count() < *one.to_s)) {
            least = std::min(least, one.cpu);
        }
    }
    return least;
}

}  // namespace cohort
