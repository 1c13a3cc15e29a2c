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
    /// @param epoch  Membership::epoch(): when it is another one than the last, what goes on now
    /// may never end, and does not count any more
    void note_epoch(std::uint64_t epoch) { state_->note_epoch(epoch); }
    /// Something goes on until the last owner of the result lets it go.
    /// @param what  is kept as long; may be null
    [[nodiscard]] std::shared_ptr<const void> until_released(std::shared_ptr<const void> what) {
        const std::uint64_t epoch = state_->begin();
        const void* const at = what.get();
        return {at, [state = state_, epoch, what = std::move(what)](const void* /*value*/) mutable {
                    what.reset();
                    state->end(epoch);
                }};
    }

private:
    struct State {
        /// @return the epoch in which it goes on
        [[nodiscard]] std::uint64_t begin() {
            const std::lock_guard lock(mutex);
            if (going_on++ == 0) {
                since = clock.now();
            }
            return epoch;
        }
        void end(std::uint64_t begun_in) {
            const std::lock_guard lock(mutex);
            if (begun_in == epoch && --going_on == 0) {
                before += clock.now() - since;
            }
        }
        void note_epoch(std::uint64_t now) {
            const std::lock_guard lock(mutex);
            if (now != epoch && going_on > 0) {
                before += clock.now() - since;
                going_on = 0;
            }
            epoch = now;
        }
        [[nodiscard]] double seconds() const {
            const std::lock_guard lock(mutex);
            const Clock::Seconds now = going_on > 0 ? clock.now() - since : Clock::Seconds(0);
            return (before + now).count();
        }

        mutable std::mutex mutex;
        SteadyClock clock;
        std::uint64_t epoch = 0;
        int going_on = 0;  ///< begun in this epoch
        Clock::Seconds since{0};
        Clock::Seconds before{0};
    };

    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace cohort
