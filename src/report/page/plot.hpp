#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/page/svg.hpp"

namespace cohort {

/// A point of a curve, with the band around it.
struct CurvePoint {
    double x = 0;
    double value = 0;
    double least = 0;
    double most = 0;
};

/// Draws a line, and the band from least to most; points that are not finite are left out.
void add_curve(Picture& picture, std::string_view kind, std::string_view title, const Scale& x,
               const Scale& y, std::span<const CurvePoint> points);

/// A picture with curves between two axes, as wide as a card of the page.
class Plot {
public:
    static constexpr double kWidth = 440;
    static constexpr double kHeight = 250;

    struct Axis {
        double from = 0;
        double to = 1;
        std::string what;  ///< with its unit
    };

    /// @param id  unique in the page
    Plot(const std::string& id, std::string_view title, std::string_view description, const Axis& x,
         const Axis& y);

    /// What lies beyond the axes is cut off.
    void add(std::string_view kind, std::string_view title, std::span<const CurvePoint> points);
    /// A level with its name.
    void target(double y, std::string_view name);
    /// A dot with a tooltip.
    void dot(std::string_view kind, double x, double y, std::string_view title);

    [[nodiscard]] std::string done() const { return picture_.done(); }

private:
    std::string id_;
    Scale x_;
    Scale y_;
    Picture picture_;
};

}  // namespace cohort
