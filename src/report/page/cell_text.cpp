#include "report/page/cell_text.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/units.hpp"

namespace cohort {
namespace {

/// A ratio less one, without its unit.
std::string change_number(double change) {
    constexpr double kMany = 10;
    constexpr double kTenths = 9.95;  // percent: larger changes are printed without decimals
    if (change >= kMany) {
        return fmt::format("×{:.0f}", change + 1);
    }
    const std::string text = std::abs(100 * change) < kTenths
                                 ? fmt::format("{:+.1f}", 100 * change)
                                 : fmt::format("{:+.0f}", 100 * change);
    return text == "-0.0" ? "+0.0" : text;
}

std::string with_unit(const std::string& number) {
    return number.starts_with("×") ? number : number + " %";
}

double change_of(double log_ratio) {
    return std::exp(log_ratio) - 1;
}

}  // namespace

std::string counted(std::size_t count, const std::string& one) {
    return fmt::format("{} {}{}", format_count(count), one, count == 1 ? "" : "s");
}

std::string seconds_text(double seconds) {
    constexpr double kTenths = 9.995;
    constexpr double kWhole = 99.95;
    return seconds < kTenths  ? fmt::format("{:.2f}", seconds)
           : seconds < kWhole ? fmt::format("{:.1f}", seconds)
                              : format_count(static_cast<std::uint64_t>(std::llround(seconds)));
}

std::string percent(double share) {
    const std::string text = fmt::format("{:.1f}", 100 * share);
    return (text.ends_with(".0") ? text.substr(0, text.size() - 2) : text) + " %";
}

std::string change_text(double log_ratio) {
    return with_unit(change_number(change_of(log_ratio)));
}

std::string change_text(const Interval& log_ratio, bool with_interval) {
    return change_text(log_ratio.value) +
           (with_interval ? fmt::format(" [{}, {}]", change_number(change_of(log_ratio.low)),
                                        change_number(change_of(log_ratio.high)))
                          : "");
}

std::string apart_text(const Interval& log_ratio, bool with_interval) {
    const bool below = log_ratio.value < 0;
    const auto number = [below](double value) {
        const std::string text = change_number(below ? -change_of(value) : change_of(value));
        return text.starts_with("+") ? text.substr(1) : text;
    };
    return fmt::format(
        "{}{} {}", with_unit(number(log_ratio.value)),
        with_interval ? fmt::format(" [{}, {}]", number(below ? log_ratio.high : log_ratio.low),
                                    number(below ? log_ratio.low : log_ratio.high))
                      : "",
        below ? "below" : "above");
}

std::string misses_text(const Ratio& ratio, const std::string& other) {
    return ratio.misses + ratio.other_misses == 0
               ? ""
               : fmt::format("missed {} of {}, {} {}", ratio.misses, ratio.pairs, other,
                             ratio.other_misses);
}

}  // namespace cohort
