#include "layers/cpu/format_cpu.hpp"

#include <algorithm>

namespace cohort {

void convert_format(const TensorFormat& from, const float* source, const TensorFormat& to,
                    float* target, std::int64_t samples) {
    const Extent extent = extent_of(from);
    const std::int64_t from_floats = from.sample_floats();
    const std::int64_t to_floats = to.sample_floats();
    if (from.block == to.block) {
        std::copy_n(source, samples * from_floats, target);
        return;
    }
    for (std::int64_t n = 0; n < samples; ++n) {
        const float* in = source + n * from_floats;
        float* out = target + n * to_floats;
        if (to_floats != extent.channels * extent.pixels) {
            std::fill_n(out, to_floats, 0.0F);
        }
        for (std::int64_t c = 0; c < extent.channels; ++c) {
            const float* a = in + element_offset(from, extent.pixels, c, 0);
            float* b = out + element_offset(to, extent.pixels, c, 0);
            for (std::int64_t p = 0; p < extent.pixels; ++p) {
                b[p * to.block] = a[p * from.block];
            }
        }
    }
}

}  // namespace cohort
