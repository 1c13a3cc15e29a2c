#include "comm/world/command_queue.hpp"

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// From here on a wait for the communication thread has a name.
constexpr std::chrono::milliseconds kWorthAName{100};

}  // namespace

bool CommandQueue::try_post(std::function<void()> command) {
    {
        const std::lock_guard lock(mutex_);
        if (!open_) {
            return false;
        }
        commands_.push_back(std::move(command));
    }
    bells_.ring_own();
    return true;
}

void CommandQueue::post(std::function<void()> command) {
    if (!try_post(std::move(command))) {
        fail<PeerError>({.where = "world", .what = "it is finalized already"});
    }
}

void CommandQueue::run(const std::function<void()>& work) {
    if (on_thread()) {
        work();
        return;
    }
    std::promise<void> done;
    std::future<void> ended = done.get_future();
    post([&work, &done] {
        try {
            work();
            done.set_value();
        } catch (...) {
            done.set_exception(std::current_exception());
        }
    });
    std::optional<OperationBoard::Wait> named;
    if (ended.wait_for(kWorthAName) != std::future_status::ready) {
        named = board_.begin("own communication thread", 0);
    }
    ended.get();
}

void CommandQueue::open() {
    thread_.store(std::this_thread::get_id());
    {
        const std::lock_guard lock(mutex_);
        open_ = true;
    }
    running_.store(true);
}

bool CommandQueue::execute() {
    std::vector<std::function<void()>> commands;
    {
        const std::lock_guard lock(mutex_);
        commands.swap(commands_);
    }
    for (const auto& command : commands) {
        command();
    }
    return !commands.empty();
}

bool CommandQueue::close() {
    const std::lock_guard lock(mutex_);
    open_ = !commands_.empty();
    return !open_;
}

}  // namespace cohort
