#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

/// `1536` -> "1.5 KiB".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);
/// 93 s -> "1:33", 3700 s -> "1:01:40".
[[nodiscard]] std::string format_duration(std::chrono::duration<double> duration);
/// 12345678 -> "12,345,678".
[[nodiscard]] std::string format_count(std::uint64_t count);
/// "1 worker", "4 workers"; @param many  of words that do not end with an s then: "2 switches"
[[nodiscard]] std::string counted(std::integral auto count, std::string_view one,
                                  std::string_view many = {}) {
    const std::string plural = many.empty() ? std::string(one) + "s" : std::string(many);
    return std::to_string(count) + " " + (count == 1 ? std::string(one) : plural);
}
/// "accuracy 0.8" or "loss 1.5": what a run is to reach, of which 0 is none.
[[nodiscard]] std::string format_target(double accuracy, double loss);
/// {3, 32, 32} -> "[3,32,32]".
[[nodiscard]] std::string format_shape(std::span<const std::int64_t> extents);

}  // namespace cohort
