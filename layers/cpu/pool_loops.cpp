// Every loop handles one pixel's lanes at a time. A backward pass goes over the inputs and gathers
// what outputs give them: sums stay in registers, and nothing is scattered.
#include "layers/cpu/pool_loops.hpp"

#include <algorithm>
#include <limits>

#include "layers/cpu/lanes.hpp"

// Attributes and declarations are no expressions.
// NOLINTBEGIN(bugprone-macro-parentheses)

namespace cohort {
namespace {

template <class Tap, int kLanes>
COHORT_INLINE inline Words<kLanes> load_taps(const Tap* from) {
    if constexpr (kLanes == 1) {
        return static_cast<std::uint32_t>(*from);
    } else {
        typename Lanes<Tap, kLanes>::Type taps;
        std::memcpy(&taps, from, sizeof taps);
        return __builtin_convertvector(taps, Words<kLanes>);
    }
}
template <class Tap, int kLanes>
COHORT_INLINE inline void store_taps(Tap* to, const Words<kLanes>& taps) {
    if constexpr (kLanes == 1) {
        *to = static_cast<Tap>(taps);
    } else {
        using Stored = typename Lanes<Tap, kLanes>::Type;
        const auto stored = __builtin_convertvector(taps, Stored);
        std::memcpy(to, &stored, sizeof stored);
    }
}

/// Calls f(lanes, plane of the input, plane of the output) in elements. Lanes that are no
/// compile-time constant do not occur: a row-major tensor has one.
template <class F>
COHORT_INLINE inline void for_planes(const PoolView& view, F&& f) {
    const auto in =
        static_cast<std::int64_t>(view.rows->inputs.size() * view.columns->inputs.size());
    const auto out =
        static_cast<std::int64_t>(view.rows->outputs.size() * view.columns->outputs.size());
    with_constant<16, 8, 1>(static_cast<int>(view.lanes), [&](auto lanes) COHORT_INLINE {
        for (std::int64_t plane = 0; plane < view.planes; ++plane) {
            f(lanes, plane * in * view.lanes, plane * out * view.lanes);
        }
    });
}

/// Calls f(rows' taps, columns' taps, number of the output) for every output of a plane.
template <class F>
COHORT_INLINE inline void for_outputs(const PoolView& view, F&& f) {
    std::int64_t output = 0;
    for (const PoolAxis::Taps& rows : view.rows->outputs) {
        for (const PoolAxis::Taps& columns : view.columns->outputs) {
            f(rows, columns, output++);
        }
    }
}

/// Calls f(rows' uses, columns' uses, number of the input) for every input of a plane.
template <class F>
COHORT_INLINE inline void for_inputs(const PoolView& view, F&& f) {
    std::int64_t input = 0;
    for (const std::vector<PoolAxis::Use>& rows : view.rows->inputs) {
        for (const std::vector<PoolAxis::Use>& columns : view.columns->inputs) {
            f(rows, columns, input++);
        }
    }
}

/// Calls f(number of the input, tap) for every tap of an output.
template <class F>
COHORT_INLINE inline void for_taps(const PoolView& view, const PoolAxis::Taps& rows,
                                   const PoolAxis::Taps& columns, F&& f) {
    const auto width = static_cast<std::int64_t>(view.columns->inputs.size());
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const std::int64_t line = (rows.cell + row * view.rows->dilation) * width + columns.cell;
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            f(line + column * view.columns->dilation, row * view.columns->kernel + column);
        }
    }
}

template <class Element, class Tap>
COHORT_INLINE inline void max_forward(const PoolView& view, const Element* x, Element* y,
                                      Tap* taps) {
    for_planes(view, [&](auto lanes, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kLanes = decltype(lanes)::value;
        using V = Vector<kLanes>;
        for_outputs(view, [&](const PoolAxis::Taps& rows, const PoolAxis::Taps& columns,
                              std::int64_t output) COHORT_INLINE {
            V most = V{} - std::numeric_limits<float>::infinity();
            Words<kLanes> which = {};
            for_taps(view, rows, columns, [&](std::int64_t input, std::int64_t tap) COHORT_INLINE {
                const V value = load<kLanes>(x + in + input * kLanes);
                // NOLINTNEXTLINE(misc-redundant-expression): only NaN differs from itself
                const auto takes = (value > most) | (value != value);
                most = takes ? value : most;
                which = takes ? Words<kLanes>{} + static_cast<std::uint32_t>(tap) : which;
            });
            store<kLanes>(y + out + output * kLanes, most);
            if (taps != nullptr) {
                store_taps<Tap, kLanes>(taps + out + output * kLanes, which);
            }
        });
    });
}

template <class Element, class Tap>
COHORT_INLINE inline void max_backward(const PoolView& view, const Element* gradient,
                                       const Tap* taps, Element* gradient_x) {
    const auto width = static_cast<std::int64_t>(view.columns->outputs.size());
    for_planes(view, [&](auto lanes, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kLanes = decltype(lanes)::value;
        using V = Vector<kLanes>;
        for_inputs(
            view, [&](const std::vector<PoolAxis::Use>& rows,
                      const std::vector<PoolAxis::Use>& columns, std::int64_t input) COHORT_INLINE {
                const V zero = {};
                V sum = {};
                for (const PoolAxis::Use& row : rows) {
                    for (const PoolAxis::Use& column : columns) {
                        const std::int64_t i = out + (row.output * width + column.output) * kLanes;
                        const auto tap =
                            static_cast<std::uint32_t>(row.tap * view.columns->kernel + column.tap);
                        const auto mine = load_taps<Tap, kLanes>(taps + i) == Words<kLanes>{} + tap;
                        sum += mine ? load<kLanes>(gradient + i) : zero;
                    }
                }
                store<kLanes>(gradient_x + in + input * kLanes, sum);
            });
    });
}

/// What an output is divided by.
COHORT_INLINE inline float cells_of(const PoolView& view, const PoolAxis::Taps& rows,
                                    const PoolAxis::Taps& columns) {
    return static_cast<float>(view.counts_padding
                                  ? view.rows->kernel * view.columns->kernel
                                  : (rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class Element>
COHORT_INLINE inline void average_forward(const PoolView& view, const Element* x, Element* y) {
    for_planes(view, [&](auto lanes, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kLanes = decltype(lanes)::value;
        using V = Vector<kLanes>;
        for_outputs(view, [&](const PoolAxis::Taps& rows, const PoolAxis::Taps& columns,
                              std::int64_t output) COHORT_INLINE {
            V sum = {};
            V line = {};
            PoolAxis::Taps row = rows;
            for (row.begin = rows.begin; row.begin < rows.end; ++row.begin) {
                row.end = row.begin + 1;
                line = V{};
                for_taps(view, row, columns, [&](std::int64_t input, std::int64_t) COHORT_INLINE {
                    line += load<kLanes>(x + in + input * kLanes);
                });
                sum += line;
            }
            store<kLanes>(y + out + output * kLanes, sum / cells_of(view, rows, columns));
        });
    });
}

template <class Element>
COHORT_INLINE inline void average_backward(const PoolView& view, const Element* gradient,
                                           Element* gradient_x) {
    const auto width = static_cast<std::int64_t>(view.columns->outputs.size());
    for_planes(view, [&](auto lanes, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kLanes = decltype(lanes)::value;
        using V = Vector<kLanes>;
        for_inputs(
            view, [&](const std::vector<PoolAxis::Use>& rows,
                      const std::vector<PoolAxis::Use>& columns, std::int64_t input) COHORT_INLINE {
                V sum = {};
                for (const PoolAxis::Use& row : rows) {
                    const auto& down = view.rows->outputs[static_cast<std::size_t>(row.output)];
                    for (const PoolAxis::Use& column : columns) {
                        const auto& across =
                            view.columns->outputs[static_cast<std::size_t>(column.output)];
                        const std::int64_t i = out + (row.output * width + column.output) * kLanes;
                        sum += load<kLanes>(gradient + i) * (1.0F / cells_of(view, down, across));
                    }
                }
                store<kLanes>(gradient_x + in + input * kLanes, sum);
            });
    });
}

}  // namespace

PoolAxis::PoolAxis(const WindowAxis& window, std::int64_t input_count, std::int64_t output_count)
    : dilation(window.dilation),
      kernel(window.kernel),
      outputs(static_cast<std::size_t>(output_count)),
      inputs(static_cast<std::size_t>(input_count)) {
    for (std::int64_t o = 0; o < output_count; ++o) {
        Taps& taps = outputs[static_cast<std::size_t>(o)];
        taps.cell = o * window.stride - window.before;
        const auto outside = [&](std::int64_t tap) {
            return taps.cell + tap * dilation < 0 || taps.cell + tap * dilation >= input_count;
        };
        while (taps.begin < kernel && outside(taps.begin)) {
            ++taps.begin;
        }
        for (taps.end = taps.begin; taps.end < kernel && !outside(taps.end); ++taps.end) {
            inputs[static_cast<std::size_t>(taps.cell + taps.end * dilation)].push_back(
                {o, taps.end});
        }
    }
}

// One function per type: clones of a template instance are not made by all compilers.
#define COHORT_MAX_POOL(ELEMENT, TAP)                                                            \
    template <>                                                                                  \
    COHORT_SIMD_CLONES void max_pool_forward(const PoolView& view, const ELEMENT* x, ELEMENT* y, \
                                             TAP* taps) {                                        \
        max_forward(view, x, y, taps);                                                           \
    }                                                                                            \
    template <>                                                                                  \
    COHORT_SIMD_CLONES void max_pool_backward(const PoolView& view, const ELEMENT* gradient,     \
                                              const TAP* taps, ELEMENT* gradient_x) {            \
        max_backward(view, gradient, taps, gradient_x);                                          \
    }
COHORT_MAX_POOL(float, std::uint8_t)
COHORT_MAX_POOL(float, std::uint32_t)
COHORT_MAX_POOL(std::uint16_t, std::uint8_t)
COHORT_MAX_POOL(std::uint16_t, std::uint32_t)
#undef COHORT_MAX_POOL

#define COHORT_AVERAGE_POOL(ELEMENT)                                                             \
    template <>                                                                                  \
    COHORT_SIMD_CLONES void average_pool_forward(const PoolView& view, const ELEMENT* x,         \
                                                 ELEMENT* y) {                                   \
        average_forward(view, x, y);                                                             \
    }                                                                                            \
    template <>                                                                                  \
    COHORT_SIMD_CLONES void average_pool_backward(const PoolView& view, const ELEMENT* gradient, \
                                                  ELEMENT* gradient_x) {                         \
        average_backward(view, gradient, gradient_x);                                            \
    }
COHORT_AVERAGE_POOL(float)
COHORT_AVERAGE_POOL(std::uint16_t)
#undef COHORT_AVERAGE_POOL

}  // namespace cohort
// NOLINTEND(bugprone-macro-parentheses)
