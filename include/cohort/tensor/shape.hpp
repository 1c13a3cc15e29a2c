#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace cohort {

/// Up to five extents, row-major order, e.g. [C,H,W] of one sample or [O,I,KH,KW] of a weight.
class Shape {
public:
    static constexpr int kMaxRank = 5;

    Shape() = default;
    /// Errors: ShapeError for more than five or non-positive extents.
    Shape(std::initializer_list<std::int64_t> extents);
    explicit Shape(std::span<const std::int64_t> extents);

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] std::int64_t operator[](int axis) const noexcept {
        return extents_[static_cast<std::size_t>(axis)];
    }
    /// Product of the extents; 1 for rank 0.
    [[nodiscard]] std::int64_t elements() const noexcept;
    [[nodiscard]] std::span<const std::int64_t> extents() const noexcept {
        return {extents_.data(), static_cast<std::size_t>(rank_)};
    }
    friend bool operator==(const Shape& a, const Shape& b) noexcept = default;

private:
    std::array<std::int64_t, kMaxRank> extents_{};
    int rank_ = 0;
};

/// "[3,32,32]".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace cohort
