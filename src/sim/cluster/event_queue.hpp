#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
    /// @param seconds not before now(). Errors: std::logic_error for an earlier or non-finite time.
    Id at(double seconds, Action action);
    Id after(double seconds, Action action) { return at(now_ + seconds, std::move(action)); }
    /// Nothing happens when it has happened or was cancelled.
    void cancel(Id id);
    /// To be called once before the clock moves on from now(), after all events of this time: so a
    /// burst of changes at one moment is worked out once. Asked for again each time; it may ask for
    /// events at now().
    void settle_with(Action action) { settling_.push_back(std::move(action)); }

    /// The next event, with the settling before it. False: nothing is left.
    bool step();
    /// Time of the next event, after the settling that is due before it; infinity: none.
    [[nodiscard]] double next_time();
    /// Events that wait.
    [[nodiscard]] std::size_t waiting() const noexcept { return heap_.size(); }
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
    };

    /// All that is due before the clock moves on.
    void settle();
    Action take(std::uint32_t index);

    double now_ = 0;
    std::uint64_t events_ = 0;
    std::uint64_t asked_ = 0;
    PositionHeap<Key> heap_;
    SlotTable<Entry> entries_;
    std::vector<Action> settling_;
    std::vector<Action> settling_now_;
};

}  // namespace cohort
