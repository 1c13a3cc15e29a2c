#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "cohort/core/clock.hpp"

namespace cohort {

/// How long something was going on, whatever went on at the same time. Thread safe.
class BusyTime {
public:
    [[nodiscard]] double seconds() const { return state_->seconds(); }
    /// @param epoch  Membership::epoch(): in another one than the last, what goes on may never end,
    /// and does not count any more
    void note_epoch(std::uint64_t epoch) {
        if (std::exchange(epoch_, epoch) == epoch) {
            return;
        }
        const double before = seconds();
        state_ = std::make_shared<State>();
        state_->before = Clock::Seconds(before);
    }
    /// Something goes on until the last owner of the result lets it go.
    /// @param what  is kept as long; may be null
    [[nodiscard]] std::shared_ptr<const void> until_released(std::shared_ptr<const void> what) {
        state_->begin();
        const void* const at = what.get();
        return {at, [state = state_, what = std::move(what)](const void* /*value*/) mutable {
                    what.reset();
                    state->end();
                }};
    }

private:
    struct State {
        void begin() {
            const std::lock_guard lock(mutex);
            if (going_on++ == 0) {
                since = clock.now();
            }
        }
        void end() {
            const std::lock_guard lock(mutex);
            if (--going_on == 0) {
                before += clock.now() - since;
            }
        }
        [[nodiscard]] double seconds() const {
            const std::lock_guard lock(mutex);
            const Clock::Seconds now = going_on > 0 ? clock.now() - since : Clock::Seconds(0);
            return (before + now).count();
        }

        mutable std::mutex mutex;
        SteadyClock clock;
        int going_on = 0;
        Clock::Seconds since{0};
        Clock::Seconds before{0};
    };

    std::uint64_t epoch_ = 0;
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace cohort
