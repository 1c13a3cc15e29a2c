// A heap of times over a table that holds the actions.
#include "sim/cluster/event_queue.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace cohort {

EventQueue::Id EventQueue::at(double seconds, Action action) {
    if (!(seconds >= now_) || std::isinf(seconds)) {
        throw std::logic_error("[EventQueue::at] an event must come in a finite time, not before " +
                               std::to_string(now_) + " s; got " + std::to_string(seconds) + " s");
    }
    if (heap_.size() >= SlotTable<Entry>::kMostSlots) {
        throw std::logic_error("[EventQueue::at] more than 16777216 events wait");
    }
    const Id id = entries_.take();
    const std::uint32_t index = entries_.index_of(id);
    entries_[index].action = std::move(action);
    heap_.push({seconds, ++asked_}, index,
               [this](std::uint32_t item) -> std::uint32_t& { return entries_[item].position; });
    return id;
}

EventQueue::Action EventQueue::take(std::uint32_t index) {
    heap_.remove(entries_[index].position,
                 [this](std::uint32_t item) -> std::uint32_t& { return entries_[item].position; });
    Action action = std::move(entries_[index].action);
    entries_[index].action = nullptr;
    entries_.release(entries_.id_at(index));
    return action;
}

void EventQueue::cancel(Id id) {
    if (entries_.find(id) != nullptr) {
        take(entries_.index_of(id));
    }
}

void EventQueue::settle() {
    while (!settling_.empty() && (heap_.empty() || heap_.top_key().seconds > now_)) {
        settling_now_.swap(settling_);
        for (const Action& action : settling_now_) {
            action();
        }
        settling_now_.clear();
    }
}

double EventQueue::next_time() {
    settle();
    return heap_.empty() ? std::numeric_limits<double>::infinity() : heap_.top_key().seconds;
}

bool EventQueue::step() {
    settle();
    if (heap_.empty()) {
        return false;
    }
    now_ = heap_.top_key().seconds;
    const Action action = take(heap_.top());
    ++events_;
    action();
    return true;
}

}  // namespace cohort
