#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "comm/base/doorbell.hpp"

namespace cohort {

/// What other threads ask of the communication thread. Thread safe.
class CommandQueue {
public:
    CommandQueue(Doorbells& bells, OperationBoard& board) : bells_(bells), board_(board) {}

    /// False when the communication thread takes no commands, or no more.
    [[nodiscard]] bool try_post(std::function<void()> command);
    /// Errors: PeerError when the communication thread takes no commands.
    void post(std::function<void()> command);
    /// Runs `work` on the communication thread and waits for its end; an exception of it is thrown
    /// here. While it runs nothing else moves on this rank (set-up only). On the communication
    /// thread itself it runs at once. Errors: also PeerError when the thread has ended.
    void run(const std::function<void()>& work);

    /// The communication thread has met the others and has not ended yet.
    [[nodiscard]] bool running() const noexcept { return running_.load(); }
    [[nodiscard]] bool on_thread() const noexcept {
        return thread_.load() == std::this_thread::get_id();
    }

    // On the communication thread:
    void open();
    /// Runs the commands that have come. True: there were some.
    bool execute();
    /// Takes no more commands, unless some are left. @return whether it is closed
    [[nodiscard]] bool close();
    void end() noexcept { running_.store(false); }

private:
    Doorbells& bells_;
    OperationBoard& board_;
    std::mutex mutex_;
    std::vector<std::function<void()>> commands_;
    bool open_ = false;  ///< under the mutex
    std::atomic<bool> running_{false};
    std::atomic<std::thread::id> thread_;
};

}  // namespace cohort
