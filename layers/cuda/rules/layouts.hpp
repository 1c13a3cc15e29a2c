#pragma once

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "cohort/tensor/element.hpp"

// Orders of elements in device memory: index arithmetic without any CUDA in it.
namespace cohort::cuda {

/// In which type and order a kernel reads a parameter of the flat buffer, row-major
/// [outer, channels, inner]: a convolution's [O, I/groups, KH KW], a matrix's [O, F, 1].
struct WeightForm {
    std::int64_t outer = 1;
    std::int64_t channels = 1;
    std::int64_t inner = 1;
    std::int64_t padded_channels = 1;  ///< in the copy, >= channels: the rest is zero
    /// The copy is [outer, inner, padded_channels] (filters of NHWC); false: as in the flat buffer.
    bool channels_last = false;
    ElementType type = ElementType::kF32;

    friend bool operator==(const WeightForm&, const WeightForm&) noexcept = default;
    /// Elements of the copy.
    [[nodiscard]] COHORT_HD constexpr std::int64_t elements() const noexcept {
        return outer * inner * (channels_last ? padded_channels : channels);
    }
    /// The flat buffer itself has this form.
    [[nodiscard]] constexpr bool as_is() const noexcept {
        const bool same_order = !channels_last || inner == 1 || channels == 1;
        return type == ElementType::kF32 && same_order && padded_channels == channels;
    }
};

/// Index in the parameter of the copy's element; -1: a zero.
COHORT_HD constexpr std::int64_t weight_source(const WeightForm& form, std::int64_t element) {
    if (!form.channels_last) {
        return element;
    }
    const std::int64_t row = element / form.padded_channels;
    const std::int64_t channel = element - row * form.padded_channels;
    const std::int64_t outer = row / form.inner;
    const std::int64_t inner = row - outer * form.inner;
    return channel < form.channels ? (outer * form.channels + channel) * form.inner + inner : -1;
}

/// Index in the copy of the parameter's element.
COHORT_HD constexpr std::int64_t weight_place(const WeightForm& form, std::int64_t element) {
    if (!form.channels_last) {
        return element;
    }
    const std::int64_t row = element / form.inner;
    const std::int64_t inner = element - row * form.inner;
    const std::int64_t outer = row / form.channels;
    const std::int64_t channel = row - outer * form.channels;
    return (outer * form.inner + inner) * form.padded_channels + channel;
}

/// Images [samples, channels, pixels], row-major, and as [samples, pixels, stored] with zeros in
/// the channels that are missing.
struct ImageOrder {
    std::int64_t channels = 1;
    std::int64_t stored = 1;  ///< >= channels
    std::int64_t pixels = 1;
};

/// Row-major index of an element with channels last; -1: a zero.
COHORT_HD constexpr std::int64_t image_source(const ImageOrder& order, std::int64_t element) {
    const std::int64_t row = element / order.stored;  // sample * pixels + pixel
    const std::int64_t channel = element - row * order.stored;
    const std::int64_t sample = row / order.pixels;
    const std::int64_t pixel = row - sample * order.pixels;
    return channel < order.channels ? (sample * order.channels + channel) * order.pixels + pixel
                                    : -1;
}

/// Index with channels last of a row-major element.
COHORT_HD constexpr std::int64_t image_place(const ImageOrder& order, std::int64_t element) {
    const std::int64_t row = element / order.pixels;  // sample * channels + channel
    const std::int64_t pixel = element - row * order.pixels;
    const std::int64_t sample = row / order.channels;
    const std::int64_t channel = row - sample * order.channels;
    return (sample * order.pixels + pixel) * order.stored + channel;
}

/// NaN of an element by its bits: single precision, bfloat16 or half precision.
COHORT_HD constexpr bool nan_bits(std::uint32_t bits, int exponent_bits, int fraction_bits) {
    const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1U);
    const std::uint32_t exponent = (bits >> fraction_bits) & ((1U << exponent_bits) - 1U);
    return fraction != 0 && exponent == (1U << exponent_bits) - 1U;
}

/// Of `count` entries with ascending first blocks, the first of them 0: the one that `block`
/// belongs to. `first(i)` is entry i's first block.
template <class First>
COHORT_HD constexpr int entry_of_block(int count, std::int64_t block, First&& first) {
    int low = 0;
    int high = count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (first(middle) <= block) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

}  // namespace cohort::cuda
