#pragma once

#include <cstdint>
#include <vector>

#include "cohort/core/host_device.hpp"
#include "cohort/tensor/flat_layout.hpp"

// Which floats of an optimizer's range belong to tensors, and which have weight decay: a byte for
// each unit of 16 floats of the flat buffer, since every tensor begins at a multiple of 16.
namespace cohort {

/// The byte of a unit: how many of its floats, from the first on, belong to a tensor; and whether
/// that has weight decay.
[[nodiscard]] COHORT_HD constexpr std::uint8_t make_update_unit(int used, bool decay) noexcept {
    return static_cast<std::uint8_t>(used + (decay ? 32 : 0));
}
[[nodiscard]] COHORT_HD constexpr int unit_used(std::uint8_t unit) noexcept {
    return unit & 31;
}
[[nodiscard]] COHORT_HD constexpr bool unit_decays(std::uint8_t unit) noexcept {
    return (unit & 32) != 0;
}

/// Units of the floats [begin, end) of the layout's buffer, from the one that holds `begin` on: the
/// range's float i is float (begin % 16 + i) of these units.
[[nodiscard]] std::vector<std::uint8_t> update_units(const FlatLayout& layout, std::int64_t begin,
                                                     std::int64_t end);

}  // namespace cohort
