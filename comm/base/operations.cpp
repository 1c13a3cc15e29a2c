#include "cohort/comm/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

struct OperationBoard::State {
    struct Running {
        std::string name;
        std::uint64_t sequence = 0;
        double begin = 0;
        double progress = 0;  ///< when the limit began to count
        std::function<std::vector<int>()> missing;
        WaitLimit limit = WaitLimit::kFatal;
        std::int64_t reported = 0;  ///< how often the limit had passed
    };
    struct Ended {
        std::string name;
        std::uint64_t sequence = 0;
        double seconds = 0;
    };

    double limit;
    std::shared_ptr<const Clock> clock;
    mutable std::mutex mutex;
    std::uint64_t next_id = 1;
    std::map<std::uint64_t, Running> running;  // ids ascend: oldest first
    std::deque<Ended> ended;

    [[nodiscard]] double now() const { return clock->now().count(); }

    /// How many limits `wait` is past, of those that are to be reported.
    [[nodiscard]] std::int64_t passed(const Running& wait) const {
        if (wait.limit == WaitLimit::kNone) {
            return 0;
        }
        const double limits = std::ceil((now() - wait.progress) / limit) - 1;
        const auto past = static_cast<std::int64_t>(std::max(0.0, limits));
        return wait.limit == WaitLimit::kFatal ? std::min<std::int64_t>(past, 2) : past;
    }
};

OperationBoard::OperationBoard(Clock::Seconds limit, std::shared_ptr<const Clock> clock)
    : state_(std::make_unique<State>()) {
    if (!(limit.count() > 0)) {
        fail<UsageError>({.where = "stall limit",
                          .what = "not a time to wait",
                          .expected = "more than 0 s",
                          .got = fmt::format("{} s", limit.count())});
    }
    state_->limit = limit.count();
    state_->clock = std::move(clock);
}

OperationBoard::~OperationBoard() = default;

Clock::Seconds OperationBoard::limit() const noexcept {
    return Clock::Seconds(state_->limit);
}

OperationBoard::Wait OperationBoard::begin(std::string_view name, std::uint64_t sequence,
                                           std::function<std::vector<int>()> missing,
                                           WaitLimit limit) {
    const std::lock_guard lock(state_->mutex);
    const std::uint64_t id = state_->next_id++;
    const double now = state_->now();
    state_->running.emplace(id, State::Running{.name = std::string(name),
                                               .sequence = sequence,
                                               .begin = now,
                                               .progress = now,
                                               .missing = std::move(missing),
                                               .limit = limit});
    return {*this, id};
}

void OperationBoard::renew(std::uint64_t id) noexcept {
    const std::lock_guard lock(state_->mutex);
    State::Running& wait = state_->running.find(id)->second;
    wait.progress = state_->now();
    wait.reported = 0;
}

void OperationBoard::end(std::uint64_t id) noexcept {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->running.find(id);
    State::Running& wait = found->second;
    state_->ended.push_back({std::move(wait.name), wait.sequence, state_->now() - wait.begin});
    if (state_->ended.size() > kRemembered) {
        state_->ended.pop_front();
    }
    state_->running.erase(found);
}

std::vector<Stall> OperationBoard::check(const std::function<bool(int)>& excluded) {
    const std::lock_guard lock(state_->mutex);
    std::vector<Stall> stalls;
    for (auto& [id, wait] : state_->running) {
        const std::int64_t passed = state_->passed(wait);
        if (passed <= wait.reported) {
            continue;
        }
        wait.reported = passed;
        Stall stall{.name = wait.name,
                    .sequence = wait.sequence,
                    .seconds = state_->now() - wait.progress,
                    .missing = wait.missing ? wait.missing() : std::vector<int>{},
                    .fatal = wait.limit == WaitLimit::kFatal && passed == 2};
        const bool somebody = !stall.missing.empty();
        if (excluded) {
            std::erase_if(stall.missing, excluded);
        }
        if (stall.fatal && somebody && stall.missing.empty()) {
            stall.fatal = false;  // its owner is about to learn that they are gone
            wait.progress = state_->now();
            wait.reported = 0;
        }
        stalls.push_back(std::move(stall));
    }
    return stalls;
}

void OperationBoard::forgive(Clock::Seconds pause) {
    const std::lock_guard lock(state_->mutex);
    const double now = state_->now();
    for (auto& [id, wait] : state_->running) {
        wait.progress = std::min(wait.progress + pause.count(), now);
    }
}

void OperationBoard::restart() {
    const std::lock_guard lock(state_->mutex);
    for (auto& [id, wait] : state_->running) {
        wait.progress = state_->now();
        wait.reported = 0;
    }
}

std::vector<std::string> OperationBoard::last_operations() const {
    const std::lock_guard lock(state_->mutex);
    std::vector<std::string> lines;
    for (const State::Ended& done : state_->ended) {
        lines.push_back(fmt::format("{} (#{}): {:.3f} s", done.name, done.sequence, done.seconds));
    }
    for (const auto& [id, wait] : state_->running) {
        lines.push_back(fmt::format("{} (#{}): waiting for {:.3f} s", wait.name, wait.sequence,
                                    state_->now() - wait.begin));
    }
    return lines;
}

OperationBoard::Wait::Wait(OperationBoard& board, std::uint64_t id) noexcept
    : board_(&board), id_(id) {
}

OperationBoard::Wait::Wait(Wait&& other) noexcept
    : board_(std::exchange(other.board_, nullptr)), id_(other.id_) {
}

OperationBoard::Wait& OperationBoard::Wait::operator=(Wait&& other) noexcept {
    if (this != &other) {
        if (board_ != nullptr) {
            board_->end(id_);
        }
        board_ = std::exchange(other.board_, nullptr);
        id_ = other.id_;
    }
    return *this;
}

void OperationBoard::Wait::renew() noexcept {
    if (board_ != nullptr) {
        board_->renew(id_);
    }
}

OperationBoard::Wait::~Wait() {
    if (board_ != nullptr) {
        board_->end(id_);
    }
}

}  // namespace cohort
