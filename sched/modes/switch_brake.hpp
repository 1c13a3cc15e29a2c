#pragma once

#include <algorithm>
#include <cstdint>

namespace cohort {

/// Keeps a chooser from following what changes faster than it can: a change must be wanted at
/// several looks in a row, at eight times as many after each change that did not last long; half of
/// that is forgotten in a thousand looks.
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
        if (wanted_ < patience()) {
            return false;
        }
        made();
        return true;
    }

private:
    static constexpr int kLeast = 2;  ///< looks
    static constexpr int kMore = 8;   ///< times
    static constexpr int kMost = 256;
    static constexpr int kLasts = 24;            ///< times the patience
    static constexpr std::int64_t kHalf = 1000;  ///< looks without a change

    [[nodiscard]] int patience() const {
        constexpr std::int64_t kHalvings = 8;
        const std::int64_t halvings = std::min((looks_ - made_at_) / kHalf, kHalvings);
        return std::max(kLeast, patience_ >> static_cast<int>(halvings));
    }
    void made() {
        const int before = patience();
        const bool lasted = looks_ - made_at_ >= static_cast<std::int64_t>(kLasts) * before;
        patience_ = lasted ? std::max(kLeast, before / 2) : std::min(kMost, kMore * before);
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
