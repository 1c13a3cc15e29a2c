#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/slot_table.hpp"

namespace cohort {

/// A virtual clock with what is to happen on it. Events at the same time happen in the order in
/// which they were asked for, so that a run can be repeated exactly. Pure, one thread.
/// Cost: O(log n) for each call, n events that wait; no allocation for an action of up to 16 bytes.
class EventQueue {
public:
    using Action = std::function<void()>;
    /// Of an event that waits; 0: none. Never used twice.
    using Id = std::uint64_t;

    /// Seconds since the start.
    [[nodiscard]] double now() const noexcept { return now_; }
    /// Which of several users of the queue acts, by a number of their own; 0: nobody in particular.
    /// An event belongs to whoever acted when it was asked for: that one acts when it happens, and
    /// afterwards, also when it threw.
    [[nodiscard]] int client() const noexcept { return client_; }
    void act_for(int client) noexcept { client_ = client; }
    /// @param seconds not before now(). Errors: std::logic_error for an earlier or non-finite time.
    Id at(double seconds, Action action) {
        if (!(seconds >= now_) || std::isinf(seconds)) {
            throw std::logic_error("[at] an event must come in a finite time, not before " +
                                   std::to_string(now_) + " s; got " + std::to_string(seconds) +
                                   " s");
        }
        if (heap_.size() >= SlotTable<Entry>::kMostSlots) {
            throw std::logic_error("[at] more than 16777216 events wait");
        }
        const Id id = entries_.take();
        const std::uint32_t index = entries_.index_of(id);
        entries_[index].action = std::move(action);
        entries_[index].client = client_;
        heap_.push({seconds, ++asked_}, index, [this](std::uint32_t item) -> std::uint32_t& {
            return entries_[item].position;
        });
        return id;
    }

    Id after(double seconds, Action action) { return at(now_ + seconds, std::move(action)); }
    /// Nothing happens when it has happened or was cancelled.
    void cancel(Id id) {
        if (entries_.find(id) != nullptr) {
            take(entries_.index_of(id));
        }
    }

    /// To be called once before the clock moves on from now(), after all events of this time: so a
    /// burst of changes at one moment is worked out once. Asked for again each time; it may ask for
    /// events at now().
    void settle_with(Action action) { settling_.push_back(std::move(action)); }

    /// The next event, with the settling before it. False: nothing is left.
    bool step() {
        settle();
        if (heap_.empty()) {
            return false;
        }
        now_ = heap_.top_key().seconds;
        client_ = entries_[heap_.top()].client;
        const Action action = take(heap_.top());
        ++events_;
        action();
        return true;
    }

    /// Events that have happened.
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

private:
    struct Key {
        double seconds;
        std::uint64_t order;
        friend bool operator<(const Key& a, const Key& b) noexcept {
            return a.seconds < b.seconds || (a.seconds == b.seconds && a.order < b.order);
        }
    };
    struct Entry {
        Action action;
        std::uint32_t position = 0;  ///< in the heap
        int client = 0;
    };

    /// All that is due before the clock moves on.
    void settle() {
        while (!settling_.empty() && (heap_.empty() || heap_.top_key().seconds > now_)) {
            settling_now_.swap(settling_);
            for (const Action& action : settling_now_) {
                action();
            }
            settling_now_.clear();
        }
    }

    Action take(std::uint32_t index) {
        heap_.remove(entries_[index].position, [this](std::uint32_t item) -> std::uint32_t& {
            return entries_[item].position;
        });
        Action action = std::move(entries_[index].action);
        entries_[index].action = nullptr;
        entries_.release(entries_.id_at(index));
        return action;
    }

    double now_ = 0;
    std::uint64_t events_ = 0;
    std::uint64_t asked_ = 0;
    int client_ = 0;
    PositionHeap<Key> heap_;
    SlotTable<Entry> entries_;
    std::vector<Action> settling_;
    std::vector<Action> settling_now_;
};

}  // namespace cohort
