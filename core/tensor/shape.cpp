#include "cohort/tensor/shape.hpp"

#include "cohort/core/error.hpp"
#include "core/units.hpp"

namespace cohort {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {
}

Shape::Shape(std::span<const std::int64_t> extents) {
    if (extents.size() > kMaxRank) {
        fail<ShapeError>({.where = "Shape",
                          .what = "too many extents",
                          .expected = "at most 5",
                          .got = std::to_string(extents.size())});
    }
    for (const std::int64_t extent : extents) {
        if (extent <= 0) {
            fail<ShapeError>({.where = "Shape",
                              .what = "extent is not positive",
                              .expected = "1 or more",
                              .got = std::to_string(extent)});
        }
        extents_[static_cast<std::size_t>(rank_++)] = extent;
    }
}

std::int64_t Shape::elements() const noexcept {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents()) {
        product *= extent;
    }
    return product;
}

std::string to_string(const Shape& shape) {
    return format_shape(shape.extents());
}

}  // namespace cohort
