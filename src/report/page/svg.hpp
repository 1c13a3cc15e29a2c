#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/markup.hpp"

namespace cohort {

/// Maps values to places along an axis.
struct Scale {
    double from = 0;  ///< value at `begin`
    double to = 1;    ///< value at `end`
    double begin = 0;
    double end = 1;
    [[nodiscard]] double operator()(double value) const {
        return begin + (value - from) / (to - from) * (end - begin);
    }
};

/// Round numbers, about `count` of them, that lie in [from, to]. Cost: O(count).
[[nodiscard]] std::vector<double> round_ticks(double from, double to, int count);

/// A place in a picture: one decimal.
[[nodiscard]] std::string place(double value);

/// 1234567 -> "1.23M", 0.05 -> "0.05": three digits.
[[nodiscard]] std::string short_number(double value);

/// A picture in SVG that scales with its column, uses the page's colours (classes), and has a
/// description for screen readers.
class Picture {
public:
    /// @param id  unique in the page
    Picture(std::string id, double width, double height, std::string_view title,
            std::string_view description);

    void add(std::string_view element) { body_ += element; }
    /// @param anchor "start", "middle" or "end"
    void text(double x, double y, std::string_view anchor, std::string_view content,
              std::string_view kind = "");
    void line(double x1, double y1, double x2, double y2, std::string_view kind);
    /// Axis line, ticks with numbers, and a title with the unit, below the plot or left of it.
    /// @param grid  length of the grid lines through the plot
    void x_axis(const Scale& scale, double y, double grid, const std::vector<double>& ticks,
                std::string_view what);
    void y_axis(const Scale& scale, double x, double grid, const std::vector<double>& ticks,
                std::string_view what);

    [[nodiscard]] std::string done() const;

private:
    std::string head_;
    std::string body_;
};

}  // namespace cohort
