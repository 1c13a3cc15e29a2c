#include "report/page/svg.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace cohort {

std::vector<double> round_ticks(double from, double to, int count) {
    std::vector<double> ticks;
    if (!(to > from) || count < 1) {
        return ticks;
    }
    const double rough = (to - from) / count;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= rough * 0.999) {
            step = factor * power;
            break;
        }
    }
    const auto first = static_cast<std::int64_t>(std::ceil(from / step - 1e-9));
    const auto last = static_cast<std::int64_t>(std::floor(to / step + 1e-9));
    for (std::int64_t i = first; i <= last; ++i) {
        ticks.push_back(static_cast<double>(i) * step);
    }
    return ticks;
}

std::string place(double value) {
    std::string text = fmt::format("{:.1f}", value);
    if (text.ends_with(".0")) {
        text.resize(text.size() - 2);
    }
    return text == "-0" ? "0" : text;
}

std::string short_number(double value) {
    struct Unit {
        double size;
        const char* name;
    };
    constexpr std::array<Unit, 3> kUnits{{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}}};
    for (const Unit& unit : kUnits) {
        if (std::abs(value) >= unit.size * 0.9995) {
            const double divisor = unit.name[0] == 'k' ? 1e3 : unit.size;
            return fmt::format("{:.3g}{}", value / divisor, unit.name);
        }
    }
    constexpr double kWhole = 999.5;
    return std::abs(value) >= kWhole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

Picture::Picture(std::string id, double width, double height, std::string_view title,
                 std::string_view description)
    : head_(fmt::format("<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
                        "aria-labelledby=\"{2}-t {2}-d\"><title id=\"{2}-t\">{3}</title>"
                        "<desc id=\"{2}-d\">{4}</desc>",
                        place(width), place(height), id, escaped(title), escaped(description))) {
}

void Picture::text(double x, double y, std::string_view anchor, std::string_view content,
                   std::string_view kind) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>", place(x),
                         place(y), anchor, kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
                         escaped(content));
}

void Picture::line(double x1, double y1, double x2, double y2, std::string_view kind) {
    body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>", place(x1),
                         place(y1), place(x2), place(y2), kind);
}

void Picture::x_axis(const Scale& scale, double y, double grid, const std::vector<double>& ticks,
                     std::string_view what) {
    constexpr double kNumbers = 13;
    constexpr double kWhat = 27;
    for (const double tick : ticks) {
        line(scale(tick), y, scale(tick), y - grid, "grid");
        text(scale(tick), y + kNumbers, "middle", short_number(tick));
    }
    line(scale.begin, y, scale.end, y, "axis");
    text((scale.begin + scale.end) / 2, y + kWhat, "middle", what, "what");
}

void Picture::y_axis(const Scale& scale, double x, double grid, const std::vector<double>& ticks,
                     std::string_view what) {
    constexpr double kGap = 4;
    constexpr double kBaseline = 3.5;
    constexpr double kAbove = 7;
    for (const double tick : ticks) {
        line(x, scale(tick), x + grid, scale(tick), "grid");
        text(x - kGap, scale(tick) + kBaseline, "end", short_number(tick));
    }
    line(x, scale.begin, x, scale.end, "axis");
    text(0, std::min(scale.begin, scale.end) - kAbove, "start", what, "what");
}

std::string Picture::done() const {
    return head_ + body_ + "</svg>\n";
}

}  // namespace cohort
