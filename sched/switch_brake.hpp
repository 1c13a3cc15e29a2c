#pragma once

#include <algorithm>
#include <cstdint>

namespace cohort {

/// Keeps a chooser from following what changes faster than it can: a change must be wanted at
/// several looks in a row, at twice as many after each change that did not last long.
class SwitchBrake {
public:
    /// At a look: nothing is wanted.
    void content() {
        ++looks_;
        wanted_ = 0;
    }
    /// At a look: a change is wanted. @param side  to which; another one counts from the start
    /// @return it has been wanted for long enough, and is made
    [[nodiscard]] bool wants(int side) {
        ++looks_;
        wanted_ = side == side_ ? wanted_ + 1 : 1;
        side_ = side;
        if (wanted_ < patience_) {
            return false;
        }
        made();
        return true;
    }

private:
    static constexpr int kLeast = 2;  ///< looks
    static constexpr int kMost = 64;
    static constexpr int kLasts = 8;  ///< times the patience

    void made() {
        const bool lasted = looks_ - made_at_ >= static_cast<std::int64_t>(kLasts) * patience_;
        patience_ = lasted ? std::max(kLeast, patience_ / 2) : std::min(kMost, 2 * patience_);
        made_at_ = looks_;
        wanted_ = 0;
    }

    int patience_ = kLeast;
    int wanted_ = 0;  ///< looks in a row
    int side_ = 0;
    std::int64_t looks_ = 0;
    std::int64_t made_at_ = -static_cast<std::int64_t>(kLasts) * kMost;
};

}  // namespace cohort
