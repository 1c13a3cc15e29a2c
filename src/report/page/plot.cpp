#include "report/page/plot.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace cohort {
namespace {

constexpr double kPlotLeft = 34;
constexpr double kPlotRight = 12;
constexpr double kPlotTop = 22;
constexpr double kPlotBottom = 32;
constexpr int kPlotTicks = 5;

}  // namespace

void add_curve(Picture& picture, std::string_view kind, std::string_view title, const Scale& x,
               const Scale& y, std::span<const CurvePoint> points) {
    std::string line;
    std::string most;
    std::string least;  // backwards
    for (const CurvePoint& point : points) {
        if (std::isfinite(point.value)) {
            const std::string at = place(x(point.x));
            line += fmt::format("{},{} ", at, place(y(point.value)));
            most += fmt::format("{},{} ", at, place(y(point.most)));
            least.insert(0, fmt::format("{},{} ", at, place(y(point.least))));
        }
    }
    picture.add(
        fmt::format("<g class=\"{}\"><title>{}</title><polygon class=\"band\" points=\"{}\"/>"
                    "<polyline points=\"{}\"/></g>",
                    kind, escaped(title), most + least, line));
}

Plot::Plot(const std::string& id, std::string_view title, std::string_view description,
           const Axis& x, const Axis& y)
    : id_(id),
      x_{.from = x.from, .to = x.to, .begin = kPlotLeft, .end = kWidth - kPlotRight},
      y_{.from = y.from, .to = y.to, .begin = kHeight - kPlotBottom, .end = kPlotTop},
      picture_(id, kWidth, kHeight, title, description) {
    picture_.x_axis(x_, y_.begin, y_.begin - y_.end, round_ticks(x.from, x.to, kPlotTicks), x.what);
    picture_.y_axis(y_, kPlotLeft, x_.end - x_.begin, round_ticks(y.from, y.to, kPlotTicks),
                    y.what);
    picture_.add(fmt::format(
        "<clipPath id=\"{}-c\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>", id,
        place(x_.begin), place(y_.end), place(x_.end - x_.begin), place(y_.begin - y_.end)));
}

void Plot::add(std::string_view kind, std::string_view title, std::span<const CurvePoint> points) {
    picture_.add(fmt::format("<g clip-path=\"url(#{}-c)\">", id_));
    add_curve(picture_, kind, title, x_, y_, points);
    picture_.add("</g>");
}

void Plot::target(double y, std::string_view name) {
    picture_.line(x_.begin, y_(y), x_.end, y_(y), "target");
    picture_.text(x_.begin + 4, y_(y) - 3, "start", name, "what");
}

void Plot::dot(std::string_view kind, double x, double y, std::string_view title) {
    constexpr double kRadius = 3.5;
    picture_.add(fmt::format(
        "<g class=\"{}\"><title>{}</title><circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"{}\"/></g>",
        kind, escaped(title), place(x_(x)), place(y_(y)), kRadius));
}

}  // namespace cohort
