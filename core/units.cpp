#include "core/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

namespace cohort {

std::string format_bytes(std::uint64_t bytes) {
    constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < kUnits.size()) {
        value /= 1024.0;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_duration(std::chrono::duration<double> duration) {
    const auto total = static_cast<std::int64_t>(std::llround(std::max(0.0, duration.count())));
    const std::int64_t hours = total / 3600;
    const std::int64_t minutes = total / 60 % 60;
    const std::int64_t seconds = total % 60;
    return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, seconds)
                     : fmt::format("{}:{:02}", minutes, seconds);
}

std::string format_count(std::uint64_t count) {
    std::string digits = std::to_string(count);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
        digits.insert(static_cast<std::size_t>(at), ",");
    }
    return digits;
}

std::string format_target(double accuracy, double loss) {
    return accuracy > 0 ? fmt::format("accuracy {}", accuracy) : fmt::format("loss {}", loss);
}

std::string format_shape(std::span<const std::int64_t> extents) {
    return fmt::format("[{}]", fmt::join(extents, ","));
}

}  // namespace cohort
