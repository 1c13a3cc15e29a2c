#include "layers/optim/update_units.hpp"

#include <algorithm>

namespace cohort {

std::vector<std::uint8_t> update_units(const FlatLayout& layout, std::int64_t begin,
                                       std::int64_t end) {
    constexpr std::int64_t kUnit = FlatLayout::kAlignment;
    const std::int64_t first_unit = begin / kUnit;
    const std::int64_t end_unit = (end + kUnit - 1) / kUnit;
    std::vector<std::uint8_t> units(static_cast<std::size_t>(end_unit - first_unit));
    for (const FlatRange& range : layout.ranges()) {
        const std::int64_t range_end = range.offset + range.size;
        const std::int64_t from = std::max(range.offset / kUnit, first_unit);
        const std::int64_t to = std::min((range_end + kUnit - 1) / kUnit, end_unit);
        for (std::int64_t unit = from; unit < to; ++unit) {
            const auto used = static_cast<int>(std::min(kUnit, range_end - unit * kUnit));
            units[static_cast<std::size_t>(unit - first_unit)] =
                make_update_unit(used, range.decay);
        }
    }
    return units;
}

}  // namespace cohort
