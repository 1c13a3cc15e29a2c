#pragma once

#include <string>

#include "cohort/report/comparison.hpp"

namespace cohort {

/// "1 job", "2 jobs", "1,050 jobs".
[[nodiscard]] std::string counted(std::size_t count, const std::string& one);
[[nodiscard]] std::string seconds_text(double seconds);
/// 0.88 -> "88 %", 0.885 -> "88.5 %".
[[nodiscard]] std::string percent(double share);
/// "+12 %", "-3.1 %", of a ratio's logarithm; from ten times on "x12".
[[nodiscard]] std::string change_text(double log_ratio);
/// "-23 % [-27, -19]"; of one seed without an interval.
[[nodiscard]] std::string change_text(const Interval& log_ratio, bool with_interval);
/// A change in words: "23 % [19, 27] below", "1.2 % [-3, 5] above".
[[nodiscard]] std::string apart_text(const Interval& log_ratio, bool with_interval);
/// "missed 2 of 25, ssgd 1": empty when no run missed the target.
[[nodiscard]] std::string misses_text(const Ratio& ratio, const std::string& other);

}  // namespace cohort
