#include "layers/cpu/conv/conv_geometry.hpp"

#include <algorithm>
#include <limits>

#include "cohort/layers/window.hpp"

namespace cohort {
namespace {

/// Along one axis: pixels `first + q * jump` of the target, and for each the taps at `q * step` +
/// place of the source.
struct AxisPhase {
    std::int64_t first = 0;
    std::int64_t count = 0;
    struct Tap {
        std::int64_t cell = 0;
        std::int64_t place = 0;
    };
    std::vector<Tap> taps;
};
struct Axis {
    std::int64_t origin = 0;
    std::int64_t step = 1;
    std::int64_t jump = 1;
    std::int64_t reach = 0;
    std::vector<AxisPhase> phases;
};

/// Pixel q sums over input q * stride - before + cell * dilation.
Axis forward_axis(const WindowAxis& window, std::int64_t outputs) {
    Axis axis{.origin = -window.before, .step = window.stride, .reach = window.reach() - 1};
    AxisPhase phase{.count = outputs};
    for (std::int64_t cell = 0; cell < window.kernel; ++cell) {
        phase.taps.push_back({cell, cell * window.dilation});
    }
    axis.phases = {phase};
    return axis;
}

/// Input i has reached output (i + before - cell * dilation) / stride where that is whole.
Axis gradient_axis(const WindowAxis& window, std::int64_t inputs) {
    Axis axis{.jump = window.stride};
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (std::int64_t first = 0; first < std::min(window.stride, inputs); ++first) {
        AxisPhase phase{.first = first, .count = (inputs - first - 1) / window.stride + 1};
        for (std::int64_t cell = window.kernel - 1; cell >= 0; --cell) {
            const std::int64_t numerator = first + window.before - cell * window.dilation;
            if (numerator % window.stride == 0) {
                const std::int64_t place = numerator / window.stride;
                phase.taps.push_back({cell, place});
                least = std::min(least, place);
                most = std::max(most, place);
            }
        }
        axis.phases.push_back(phase);
    }
    if (least > most) {  // a kernel that skips all inputs
        return axis;
    }
    axis.origin = least;
    axis.reach = most - least;
    for (AxisPhase& phase : axis.phases) {
        for (AxisPhase::Tap& tap : phase.taps) {
            tap.place -= least;
        }
    }
    return axis;
}

}  // namespace

bool ConvGeometry::within_source() const {
    return origin.height >= 0 && origin.width >= 0 &&
           origin.height + rows_under(rows()) <= source.height &&
           origin.width + columns_under(columns()) <= source.width;
}

ConvGeometry conv_geometry(const ConvProblem& problem, ConvDirection direction) {
    const Window2d window = window_from(problem.options);
    const Shape& x = problem.input.shape;
    const Shape& y = problem.output.shape;
    const bool gradient = direction == ConvDirection::kData;
    const ConvPlane input{x[1], x[2]};
    const ConvPlane output{y[1], y[2]};
    const Axis rows = gradient ? gradient_axis(window.height, input.height)
                               : forward_axis(window.height, output.height);
    const Axis columns = gradient ? gradient_axis(window.width, input.width)
                                  : forward_axis(window.width, output.width);
    ConvGeometry geometry{.source = gradient ? output : input,
                          .target = gradient ? input : output,
                          .origin = {rows.origin, columns.origin},
                          .step = {rows.step, columns.step},
                          .jump = {rows.jump, columns.jump},
                          .reach = {rows.reach, columns.reach}};
    for (const AxisPhase& row : rows.phases) {
        for (const AxisPhase& column : columns.phases) {
            ConvPhase phase{.row = row.first,
                            .column = column.first,
                            .rows = row.count,
                            .columns = column.count};
            for (const AxisPhase::Tap& down : row.taps) {
                for (const AxisPhase::Tap& across : column.taps) {
                    phase.taps.push_back({.cell = down.cell * window.width.kernel + across.cell,
                                          .row = down.place,
                                          .column = across.place});
                }
            }
            geometry.phases.push_back(std::move(phase));
        }
    }
    return geometry;
}

}  // namespace cohort
