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

/// Tensors of a slice in another type, one after the other in scratch memory. A tensor that has the
/// type already stands for itself and takes none.
class ConvertedTensors {
public:
    /// @param samples  of the slice
    ConvertedTensors(std::byte* scratch, std::int64_t samples)
        : rest_(scratch), samples_(samples) {}

    [[nodiscard]] static std::size_t bytes(const TensorFormat& format, ElementType type,
                                           std::int64_t samples) {
        return format.type == type
                   ? 0
                   : padded(static_cast<std::size_t>(samples * format.sample_floats()) *
                            element_bytes(type));
    }
    /// Memory for the tensor in that type.
    [[nodiscard]] float* room(const TensorFormat& format, float* tensor, ElementType type) {
        float* room = format.type == type ? tensor : reinterpret_cast<float*>(rest_);
        rest_ += bytes(format, type, samples_);
        return room;
    }
    [[nodiscard]] float* converted(const TensorFormat& format, const float* tensor,
                                   ElementType type) {
        float* to = room(format, const_cast<float*>(tensor), type);
        if (to != tensor) {
            convert_elements(format.type, tensor, type, to, count(format));
        }
        return to;
    }
    /// The way back from what room() gave.
    void hand_back(const TensorFormat& format, const float* from, ElementType type,
                   float* tensor) const {
        if (from != tensor) {
            convert_elements(type, from, format.type, tensor, count(format));
        }
    }
    /// Scratch memory behind the tensors.
    [[nodiscard]] std::byte* rest() const noexcept { return rest_; }

private:
    [[nodiscard]] std::int64_t count(const TensorFormat& format) const {
        return samples_ * format.sample_floats();
    }
    std::byte* rest_;
    std::int64_t samples_;
};

/// All inputs have one type.
[[nodiscard]] bool of_one_type(const KernelContext& context);

}  // namespace cohort
