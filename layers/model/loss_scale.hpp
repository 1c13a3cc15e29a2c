#pragma once

namespace cohort {

/// The factor of the loss in half precision: as large as gradients bear without becoming infinite.
/// A power of two, so that dividing by it is exact.
class LossScale {
public:
    static constexpr float kFirst = 65536.0F;    // 2^16
    static constexpr float kMost = 16777216.0F;  // 2^24
    static constexpr int kStepsBeforeGrowth = 2000;

    [[nodiscard]] float value() const noexcept { return value_; }

    /// A step has ended. @param overflowed  a gradient was infinite or NaN
    /// @return true: repeat the step with the smaller value(); false: use its gradients
    [[nodiscard]] bool repeat_after(bool overflowed) noexcept {
        if (overflowed) {
            good_ = 0;
            if (value_ <= 1) {
                return false;  // not the scale's fault
            }
            value_ /= 2;
            return true;
        }
        if (++good_ == kStepsBeforeGrowth) {
            good_ = 0;
            value_ = value_ < kMost ? value_ * 2 : kMost;
        }
        return false;
    }

private:
    float value_ = kFirst;
    int good_ = 0;  ///< steps since the value changed
};

}  // namespace cohort
