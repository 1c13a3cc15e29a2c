#include "cohort/comm/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

std::int64_t OperationBoard::passed(const Running& wait) const {
    if (wait.limit == WaitLimit::kNone) {
        return 0;
    }
    const double limits = std::ceil((now() - wait.progress) / limit_) - 1;
    const auto past = static_cast<std::int64_t>(std::max(0.0, limits));
    return wait.limit == WaitLimit::kFatal ? std::min<std::int64_t>(past, 2) : past;
}

OperationBoard::OperationBoard(Clock::Seconds limit, std::shared_ptr<const Clock> clock)
    : limit_(limit.count()), clock_(std::move(clock)) {
    if (!(limit.count() > 0)) {
        fail<UsageError>({.where = "stall limit",
                          .what = "not a time to wait",
                          .expected = "more than 0 s",
                          .got = fmt::format("{} s", limit.count())});
    }
}

OperationBoard::Wait OperationBoard::begin(std::string_view name, std::uint64_t sequence,
                                           std::function<std::vector<int>()> missing,
                                           WaitLimit limit) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = next_id_++;
    const double moment = now();
    running_.emplace(id, Running{.name = std::string(name),
                                 .sequence = sequence,
                                 .begin = moment,
                                 .progress = moment,
                                 .missing = std::move(missing),
                                 .limit = limit});
    return {*this, id};
}

void OperationBoard::renew(std::uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    Running& wait = running_.find(id)->second;
    wait.progress = now();
    wait.reported = 0;
}

void OperationBoard::end(std::uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    Running& wait = found->second;
    ended_.push_back({std::move(wait.name), wait.sequence, now() - wait.begin});
    if (ended_.size() > kRemembered) {
        ended_.pop_front();
    }
    running_.erase(found);
}

std::vector<Stall> OperationBoard::check(const std::function<bool(int)>& excluded) {
    const std::lock_guard lock(mutex_);
    std::vector<Stall> stalls;
    for (auto& [id, wait] : running_) {
        const std::int64_t limits = passed(wait);
        if (limits <= wait.reported) {
            continue;
        }
        wait.reported = limits;
        Stall stall{.name = wait.name,
                    .sequence = wait.sequence,
                    .seconds = now() - wait.progress,
                    .missing = wait.missing ? wait.missing() : std::vector<int>{},
                    .fatal = wait.limit == WaitLimit::kFatal && limits == 2};
        const bool somebody = !stall.missing.empty();
        if (excluded) {
            std::erase_if(stall.missing, excluded);
        }
        if (stall.fatal && somebody && stall.missing.empty()) {
            stall.fatal = false;  // its owner is about to learn that they are gone
            wait.progress = now();
            wait.reported = 0;
        }
        stalls.push_back(std::move(stall));
    }
    return stalls;
}

void OperationBoard::forgive(Clock::Seconds pause) {
    const std::lock_guard lock(mutex_);
    const double moment = now();
    for (auto& [id, wait] : running_) {
        wait.progress = std::min(wait.progress + pause.count(), moment);
    }
}

void OperationBoard::restart() {
    const std::lock_guard lock(mutex_);
    for (auto& [id, wait] : running_) {
        wait.progress = now();
        wait.reported = 0;
    }
}

std::vector<std::string> OperationBoard::last_operations() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> lines;
    for (const Ended& done : ended_) {
        lines.push_back(fmt::format("{} (#{}): {:.3f} s", done.name, done.sequence, done.seconds));
    }
    for (const auto& [id, wait] : running_) {
        lines.push_back(fmt::format("{} (#{}): waiting for {:.3f} s", wait.name, wait.sequence,
                                    now() - wait.begin));
    }
    return lines;
}

}  // namespace cohort
