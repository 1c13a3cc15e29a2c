#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "cohort/comm/messenger.hpp"

namespace cohort {

struct Mailbox::State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<Message> messages;
};

Mailbox::Mailbox() : state_(std::make_unique<State>()) {
}
Mailbox::~Mailbox() = default;

std::optional<Message> Mailbox::receive(Clock::Seconds limit) {
    std::unique_lock lock(state_->mutex);
    if (!state_->arrived.wait_for(lock, limit, [this] { return !state_->messages.empty(); })) {
        return std::nullopt;
    }
    Message message = std::move(state_->messages.front());
    state_->messages.pop_front();
    return message;
}

void Mailbox::put(Message message) {
    {
        const std::lock_guard lock(state_->mutex);
        state_->messages.push_back(std::move(message));
    }
    state_->arrived.notify_one();
}

}  // namespace cohort
