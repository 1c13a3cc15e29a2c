#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cohort {

/// Bounds the records of one kind: ten at once, one a second on average. A mode whose updates take
/// a millisecond may have something to tell after each. Pure.
class RecordLimit {
public:
    /// @param now_s  never decreases  @return whether this one is written; else it counts as left
    /// out
    [[nodiscard]] bool admit(double now_s) {
        credit_ = std::min(kMost, credit_ + (now_s - std::exchange(last_s_, now_s)));
        if (credit_ < 1) {
            ++left_out_;
            return false;
        }
        credit_ -= 1;
        return true;
    }
    /// Records left out since the last call.
    [[nodiscard]] std::int64_t take_left_out() { return std::exchange(left_out_, 0); }

private:
    static constexpr double kMost = 10;

    double credit_ = kMost;
    double last_s_ = 0;
    std::int64_t left_out_ = 0;
};

}  // namespace cohort
