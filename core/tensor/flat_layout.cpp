#include "cohort/tensor/flat_layout.hpp"

#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

int FlatLayout::add(std::string name, const Shape& shape, bool decay) {
    if (find(name) != nullptr) {
        fail<UsageError>({.where = "FlatLayout",
                          .what = "two ranges of one name",
                          .expected = "unique names",
                          .got = name});
    }
    const std::int64_t size = shape.elements();
    ranges_.push_back({std::move(name), shape, total_, size, decay});
    total_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return static_cast<int>(ranges_.size()) - 1;
}

std::int64_t FlatLayout::elements() const noexcept {
    std::int64_t sum = 0;
    for (const FlatRange& range : ranges_) {
        sum += range.size;
    }
    return sum;
}

const FlatRange* FlatLayout::find(std::string_view name) const noexcept {
    for (const FlatRange& range : ranges_) {
        if (range.name == name) {
            return &range;
        }
    }
    return nullptr;
}

}  // namespace cohort
