#include "train/faults/injection.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "cohort/core/rng.hpp"

namespace cohort {
namespace {

/// Waking up from a shorter sleep takes longer than the sleep.
constexpr Clock::Seconds kShortestDelay{1e-3};
/// Longest sleep between two checks whether the mini-batch should be given up.
constexpr Clock::Seconds kLongestSleep{5e-3};

}  // namespace

Injector::Injector(const std::vector<Injection>& all, int rank, std::uint64_t seed,
                   std::shared_ptr<const Clock> wall, std::shared_ptr<const Clock> busy,
                   Sleep sleep)
    : seed_(seed), wall_(std::move(wall)), busy_(std::move(busy)), sleep_(std::move(sleep)) {
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

void Injector::replay(Replay recording, int worker) {
    replayed_.emplace(Replayed{.recording = std::move(recording), .worker = worker});
}

void Injector::begin_step() {
    if (!idle()) {
        mark_ = busy_->now();
        delay_ = Clock::Seconds(draw_delay((wall_->now() - started_).count()));
        if (replayed_) {
            delay_ += Clock::Seconds(
                replayed_->recording.delay_s(replayed_->worker, replayed_->moment++));
        }
    }
}

void Injector::begin_samples(std::int64_t count) {
    const double seconds = (wall_->now() - started_).count();
    for (const Injection& one : mine_) {
        const double each_s = one.holds(seconds) ? one.sample_s : 0;
        delay_ += Clock::Seconds(each_s * static_cast<double>(count));
    }
}

/// A number for each entry and mini-batch, whether it is needed or not.
double Injector::draw_delay(double seconds) {
    double sum = 0;
    const std::uint32_t step = steps_++;
    for (std::size_t i = 0; i < mine_.size(); ++i) {
        const Injection& one = mine_[i];
        Rng random(seed_, RngPurpose::kInjection,
                   (static_cast<std::uint64_t>(one.rank) << 32U) | step,
                   static_cast<std::uint32_t>(i));
        if (random.next_uniform() < one.probability && one.holds(seconds)) {
            sum += one.delay_s;
        }
    }
    return sum;
}

void Injector::wait_out_delay(const std::function<bool()>& give_up) {
    const Clock::Seconds before = busy_->now();
    const Clock::Seconds end = wall_->now() + std::exchange(delay_, Clock::Seconds(0));
    for (auto left = end - wall_->now(); left > Clock::Seconds(0) && !(give_up && give_up());
         left = end - wall_->now()) {
        sleep_(give_up ? std::min(left, kLongestSleep) : left);
    }
    mark_ += busy_->now() - before;  // this time is not stretched
}

void Injector::pause(const std::function<bool()>& give_up) {
    if (idle()) {
        return;
    }
    if (delay_ > Clock::Seconds(0)) {
        wait_out_delay(give_up);
    }
    const Clock::Seconds now = wall_->now();
    const double speed = share(now - started_);
    if (speed < 1) {
        debt_ += (busy_->now() - mark_) * (1 / speed - 1);
        if (debt_ >= kShortestDelay) {
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
        least = one.holds(now.count()) ? std::min(least, one.cpu) : least;
    }
    return least;
}

}  // namespace cohort
