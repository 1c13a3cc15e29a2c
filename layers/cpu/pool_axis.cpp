#include "layers/cpu/pool_axis.hpp"

namespace cohort {

PoolAxis::PoolAxis(const WindowAxis& window, std::int64_t input_count, std::int64_t output_count)
    : dilation_(window.dilation),
      kernel_(window.kernel),
      outputs_(static_cast<std::size_t>(output_count)) {
    std::vector<std::vector<PoolUse>> uses(static_cast<std::size_t>(input_count));
    for (std::int64_t o = 0; o < output_count; ++o) {
        PoolTaps& taps = outputs_[static_cast<std::size_t>(o)];
        taps.cell = o * window.stride - window.before;
        const auto outside = [&](std::int64_t tap) {
            return taps.cell + tap * dilation_ < 0 || taps.cell + tap * dilation_ >= input_count;
        };
        while (taps.begin < kernel_ && outside(taps.begin)) {
            ++taps.begin;
        }
        for (taps.end = taps.begin; taps.end < kernel_ && !outside(taps.end); ++taps.end) {
            uses[static_cast<std::size_t>(taps.cell + taps.end * dilation_)].push_back(
                {o, taps.end});
        }
    }
    first_use_.push_back(0);
    for (const std::vector<PoolUse>& of_input : uses) {
        uses_.insert(uses_.end(), of_input.begin(), of_input.end());
        first_use_.push_back(std::ssize(uses_));
    }
}

PoolLine PoolAxis::line() const {
    return {.dilation = dilation_,
            .kernel = kernel_,
            .outputs = std::ssize(outputs_),
            .inputs = std::ssize(first_use_) - 1,
            .taps = outputs_.data(),
            .uses = uses_.data(),
            .first_use = first_use_.data()};
}

}  // namespace cohort
