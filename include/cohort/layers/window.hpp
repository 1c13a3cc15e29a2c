#pragma once

#include <cstdint>
#include <string>

#include "cohort/core/host_device.hpp"

namespace cohort {

/// A number for each axis of an image; one number alone is that of both.
struct PerAxis {
    std::int64_t height = 0;
    std::int64_t width = 0;

    constexpr PerAxis(std::int64_t both) noexcept : height(both), width(both) {}
    constexpr PerAxis(std::int64_t along_height, std::int64_t along_width) noexcept
        : height(along_height), width(along_width) {}

    /// Cells of a rectangle with these sides.
    [[nodiscard]] constexpr std::int64_t cells() const noexcept { return height * width; }
    friend constexpr bool operator==(const PerAxis&, const PerAxis&) noexcept = default;
};
/// "3", or "1x7" (height, width).
[[nodiscard]] std::string to_string(const PerAxis& numbers);

/// Cells around an image; one number alone is that of all four sides.
struct Padding {
    std::int64_t top = 0;
    std::int64_t left = 0;
    std::int64_t bottom = 0;
    std::int64_t right = 0;

    constexpr Padding(std::int64_t all) noexcept : top(all), left(all), bottom(all), right(all) {}
    constexpr Padding(std::int64_t above, std::int64_t before, std::int64_t below,
                      std::int64_t after) noexcept
        : top(above), left(before), bottom(below), right(after) {}

    [[nodiscard]] constexpr bool none() const noexcept { return *this == Padding(0); }
    friend constexpr bool operator==(const Padding&, const Padding&) noexcept = default;
};
/// "1", or "0,3,0,3" (top, left, bottom, right).
[[nodiscard]] std::string to_string(const Padding& padding);

/// A window that moves along one axis: output o is made of the cells
/// o * stride - before + k * dilation, k in [0, kernel).
struct WindowAxis {
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t dilation = 1;
    std::int64_t before = 0;  ///< padding
    std::int64_t after = 0;

    /// Cells from the first to the last one of a window.
    [[nodiscard]] COHORT_HD constexpr std::int64_t reach() const noexcept {
        return dilation * (kernel - 1) + 1;
    }
    /// Outputs along `extent` cells; 0 where the window does not fit.
    [[nodiscard]] COHORT_HD constexpr std::int64_t outputs(std::int64_t extent) const noexcept {
        const std::int64_t room = extent + before + after - reach();
        return room < 0 ? 0 : room / stride + 1;
    }
};

/// The window of a convolution or a pooling.
struct Window2d {
    WindowAxis height;
    WindowAxis width;
};

/// Of options with kernel, stride, padding and dilation.
template <class Options>
[[nodiscard]] constexpr Window2d window_from(const Options& o) noexcept {
    return {.height = {.kernel = o.kernel.height,
                       .stride = o.stride.height,
                       .dilation = o.dilation.height,
                       .before = o.padding.top,
                       .after = o.padding.bottom},
            .width = {.kernel = o.kernel.width,
                      .stride = o.stride.width,
                      .dilation = o.dilation.width,
                      .before = o.padding.left,
                      .after = o.padding.right}};
}

}  // namespace cohort
