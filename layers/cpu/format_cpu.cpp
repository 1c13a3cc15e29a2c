#include "layers/cpu/format_cpu.hpp"

#include <algorithm>
#include <cstring>

#include "core/bf16.hpp"
#include "layers/cpu/elements.hpp"

namespace cohort {
namespace {

template <class Element>
void reorder(const TensorFormat& from, const Element* source, const TensorFormat& to,
             Element* target, std::int64_t samples) {
    const Extent extent = extent_of(from);
    const std::int64_t from_floats = from.sample_floats();
    const std::int64_t to_floats = to.sample_floats();
    if (from.block == to.block) {
        std::copy_n(source, samples * from_floats, target);
        return;
    }
    for (std::int64_t n = 0; n < samples; ++n) {
        const Element* in = source + n * from_floats;
        Element* out = target + n * to_floats;
        if (to_floats != extent.channels * extent.pixels) {
            std::fill_n(out, to_floats, Element{});
        }
        for (std::int64_t c = 0; c < extent.channels; ++c) {
            const Element* a = in + element_offset(from, extent.pixels, c, 0);
            Element* b = out + element_offset(to, extent.pixels, c, 0);
            for (std::int64_t p = 0; p < extent.pixels; ++p) {
                b[p * to.block] = a[p * from.block];
            }
        }
    }
}

}  // namespace

void convert_format(const TensorFormat& from, const void* source, const TensorFormat& to,
                    void* target, std::int64_t samples) {
    with_elements(from.type, [&](auto element) {
        using Element = decltype(element);
        reorder(from, static_cast<const Element*>(source), to, static_cast<Element*>(target),
                samples);
    });
}

void convert_elements(ElementType from_type, const void* from, ElementType to_type, void* to,
                      std::int64_t count) {
    const auto elements = static_cast<std::size_t>(count);
    if (from_type == to_type) {
        std::memcpy(to, from, elements * element_bytes(from_type));
    } else if (to_type == ElementType::kBf16) {
        narrow_to_bf16({static_cast<const float*>(from), elements},
                       static_cast<std::uint16_t*>(to));
    } else {
        widen_bf16(static_cast<const std::uint16_t*>(from), {static_cast<float*>(to), elements});
    }
}

bool of_one_type(const KernelContext& context) {
    return std::all_of(
        context.inputs.begin(), context.inputs.end(),
        [&](const TensorFormat& input) { return input.type == context.inputs.front().type; });
}

}  // namespace cohort
