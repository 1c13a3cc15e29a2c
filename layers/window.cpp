#include "cohort/layers/window.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kMost =
    std::numeric_limits<std::int32_t>::max();  // products do not overflow

bool within(std::int64_t least, std::initializer_list<std::int64_t> numbers) {
    return std::ranges::all_of(
        numbers, [least](std::int64_t number) { return number >= least && number <= kMost; });
}

}  // namespace

std::string to_string(const PerAxis& numbers) {
    const std::string height = std::to_string(numbers.height);
    return numbers == PerAxis(numbers.height) ? height
                                              : height + "x" + std::to_string(numbers.width);
}

std::string to_string(const Padding& padding) {
    std::string text = std::to_string(padding.top);
    if (padding != Padding(padding.top)) {
        for (const std::int64_t side : {padding.left, padding.bottom, padding.right}) {
            text += "," + std::to_string(side);
        }
    }
    return text;
}

void check_window(std::string_view layer, const Window2d& window) {
    for (const WindowAxis& axis : {window.height, window.width}) {
        if (!within(1, {axis.kernel, axis.stride, axis.dilation}) ||
            !within(0, {axis.before, axis.after})) {
            fail<ShapeError>(
                {.where = layer,
                 .what = "unusable options",
                 .expected = "kernel, stride, dilation >= 1 and padding >= 0, at most " +
                             std::to_string(kMost)});
        }
    }
}

}  // namespace cohort
