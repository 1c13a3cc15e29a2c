#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace cohort {

/// A virtual clock with what is to happen on it. Events at the same time happen in the order in
/// which they were asked for, so that a run can be repeated exactly. Pure, one thread.
/// Cost: O(log n) for each call, n events that wait.
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
    /// burst of changes at one moment is worked out once. Asked for anew each time; it may ask for
    /// events at now().
    void settle_with(Action action);

    /// The next event, with the settling before it. False: nothing is left.
    bool step();
    /// Time of the next event; infinity: none.
    [[nodiscard]] double next_time() const noexcept;
    /// Events that have happened.
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

private:
    struct Entry;
    double now_ = 0;
    std::uint64_t events_ = 0;
    // The representation belongs to event_queue.cpp's author.
};

}  // namespace cohort
