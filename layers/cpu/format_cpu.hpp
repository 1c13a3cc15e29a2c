#pragma once

#include <cstdint>

#include "cohort/layers/kernel.hpp"

namespace cohort {

/// Copies `samples` samples from one order of a shape to another of the same type; padding channels
/// become zero.
void convert_format(const TensorFormat& from, const void* source, const TensorFormat& to,
                    void* target, std::int64_t samples);

/// Where an element of channel c, pixel p lies within a sample.
inline std::int64_t element_offset(const TensorFormat& format, std::int64_t pixels, std::int64_t c,
                                   std::int64_t p) {
    return (c / format.block * pixels + p) * format.block + c % format.block;
}

/// Channels and pixels of a format; [F] has one pixel.
struct Extent {
    std::int64_t channels;
    std::int64_t pixels;
};
inline Extent extent_of(const TensorFormat& format) {
    const Shape& s = format.shape;
    return s.rank() == 3 ? Extent{s[0], s[1] * s[2]} : Extent{s.elements(), 1};
}

}  // namespace cohort
