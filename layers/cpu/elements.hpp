#pragma once

#include <cstddef>
#include <cstdint>

#include "cohort/layers/kernel.hpp"

// The pointers of a KernelSlice are those to floats; these give them the type that the tensor's
// format says.
namespace cohort {

/// Calls f(Element{}): float, or std::uint16_t for bfloat16.
template <class F>
void with_elements(ElementType type, F&& f) {
    if (type == ElementType::kBf16) {
        f(std::uint16_t{});
    } else {
        f(float{});
    }
}

template <class Element>
[[nodiscard]] Element* as(float* tensor) {
    return reinterpret_cast<Element*>(tensor);
}
template <class Element>
[[nodiscard]] const Element* as(const float* tensor) {
    return reinterpret_cast<const Element*>(tensor);
}

/// Bytes of whole cache lines.
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    return (bytes + kLine - 1) / kLine * kLine;
}

/// Copies `count` elements; rounds or widens where the types differ.
void convert_elements(ElementType from_type, const void* from, ElementType to_type, void* to,
                      std::int64_t count);

/// All inputs have one type.
[[nodiscard]] bool of_one_type(const KernelContext& context);

}  // namespace cohort
