#pragma once

#include "layers/cpu/level/level_width.hpp"
#include "layers/cpu/level/pool_task.hpp"

// The loops of pooling, for the instructions that the source that includes this is compiled for.
// Every loop handles one pixel's lanes at a time, as many as a register has. A backward pass goes
// over the inputs and gathers what outputs give them: sums stay in registers, and nothing is
// scattered.
namespace cohort {
namespace {

/// Bytes become words by way of 16 bits: GCC 12 has no step from one to the other, and goes element
/// by element.
template <class Tap, int kLanes>
COHORT_INLINE inline Words<kLanes> load_taps(const Tap* from) {
    if constexpr (kLanes == 1) {
        return static_cast<std::uint32_t>(*from);
    } else {
        typename Lanes<Tap, kLanes>::Type taps;
        std::memcpy(&taps, from, sizeof taps);
        if constexpr (sizeof(Tap) == 1) {
            return __builtin_convertvector(__builtin_convertvector(taps, Shorts<kLanes>),
                                           Words<kLanes>);
        } else {
            return taps;
        }
    }
}
template <class Tap, int kLanes>
COHORT_INLINE inline void store_taps(Tap* to, const Words<kLanes>& taps) {
    if constexpr (kLanes == 1) {
        *to = static_cast<Tap>(taps);
    } else if constexpr (sizeof(Tap) == 1) {
        using Bytes = typename Lanes<Tap, kLanes>::Type;
        const auto bytes =
            __builtin_convertvector(__builtin_convertvector(taps, Shorts<kLanes>), Bytes);
        std::memcpy(to, &bytes, sizeof bytes);
    } else {
        std::memcpy(to, &taps, sizeof taps);
    }
}

/// Calls f(width, first element of the input, of the output) for every group of `width` lanes of
/// every plane.
template <class F>
COHORT_INLINE inline void for_lanes(const PoolTask& task, F&& f) {
    const std::int64_t in = task.rows.inputs * task.columns.inputs * task.lanes;
    const std::int64_t out = task.rows.outputs * task.columns.outputs * task.lanes;
    const auto each = [&](auto width) COHORT_INLINE {
        for (std::int64_t plane = 0; plane < task.planes; ++plane) {
            for (std::int64_t lane = 0; lane < task.lanes; lane += decltype(width)::value) {
                f(width, plane * in + lane, plane * out + lane);
            }
        }
    };
    with_width(task.lanes, each);
}

/// Calls f(rows' taps, columns' taps, number of the output) for every output of a plane.
template <class F>
COHORT_INLINE inline void for_outputs(const PoolTask& task, F&& f) {
    std::int64_t output = 0;
    for (std::int64_t row = 0; row < task.rows.outputs; ++row) {
        for (std::int64_t column = 0; column < task.columns.outputs; ++column) {
            f(task.rows.taps[row], task.columns.taps[column], output++);
        }
    }
}

/// Calls f(use of the row, use of the column) for every output that reads the input (row, column).
template <class F>
COHORT_INLINE inline void for_uses(const PoolTask& task, std::int64_t row, std::int64_t column,
                                   F&& f) {
    for (std::int64_t r = task.rows.first_use[row]; r < task.rows.first_use[row + 1]; ++r) {
        for (std::int64_t c = task.columns.first_use[column];
             c < task.columns.first_use[column + 1]; ++c) {
            f(task.rows.uses[r], task.columns.uses[c]);
        }
    }
}

/// Calls f(row, column, number of the input) for every input of a plane.
template <class F>
COHORT_INLINE inline void for_inputs(const PoolTask& task, F&& f) {
    std::int64_t input = 0;
    for (std::int64_t row = 0; row < task.rows.inputs; ++row) {
        for (std::int64_t column = 0; column < task.columns.inputs; ++column) {
            f(row, column, input++);
        }
    }
}

/// Calls f(number of the input, tap) for every tap of an output.
template <class F>
COHORT_INLINE inline void for_taps(const PoolTask& task, const PoolTaps& rows,
                                   const PoolTaps& columns, F&& f) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const std::int64_t line =
            (rows.cell + row * task.rows.dilation) * task.columns.inputs + columns.cell;
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            f(line + column * task.columns.dilation, row * task.columns.kernel + column);
        }
    }
}

template <class Element, class Tap>
void max_forward(const PoolTask& task, const Element* x, Element* y, Tap* taps) {
    for_lanes(task, [&](auto width, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kWidth = decltype(width)::value;
        using V = Vector<kWidth>;
        for_outputs(task, [&](const PoolTaps& rows, const PoolTaps& columns,
                              std::int64_t output) COHORT_INLINE {
            V most = V{} - __builtin_inff();
            // Where all are -inf, it is the first one within the image.
            Words<kWidth> which =
                Words<kWidth>{} +
                static_cast<std::uint32_t>(rows.begin * task.columns.kernel + columns.begin);
            for_taps(task, rows, columns, [&](std::int64_t input, std::int64_t tap) COHORT_INLINE {
                const V value = load<kWidth>(x + in + input * task.lanes);
                // NOLINTNEXTLINE(misc-redundant-expression): only NaN differs from itself
                const auto takes = (value > most) | (value != value);
                most = takes ? value : most;
                which = takes ? Words<kWidth>{} + static_cast<std::uint32_t>(tap) : which;
            });
            store<kWidth>(y + out + output * task.lanes, most);
            if (taps != nullptr) {
                store_taps<Tap, kWidth>(taps + out + output * task.lanes, which);
            }
        });
    });
}

template <class Element, class Tap>
void max_backward(const PoolTask& task, const Element* gradient, const Tap* taps,
                  Element* gradient_x) {
    for_lanes(task, [&](auto width, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kWidth = decltype(width)::value;
        using V = Vector<kWidth>;
        for_inputs(task, [&](std::int64_t row, std::int64_t column,
                             std::int64_t input) COHORT_INLINE {
            const V zero = {};
            V sum = {};
            for_uses(
                task, row, column, [&](const PoolUse& down, const PoolUse& across) COHORT_INLINE {
                    const std::int64_t i =
                        out + (down.output * task.columns.outputs + across.output) * task.lanes;
                    const auto tap =
                        static_cast<std::uint32_t>(down.tap * task.columns.kernel + across.tap);
                    const auto mine = load_taps<Tap, kWidth>(taps + i) == Words<kWidth>{} + tap;
                    sum += mine ? load<kWidth>(gradient + i) : zero;
                });
            store<kWidth>(gradient_x + in + input * task.lanes, sum);
        });
    });
}

/// What an output is divided by.
COHORT_INLINE inline float cells_of(const PoolTask& task, const PoolTaps& rows,
                                    const PoolTaps& columns) {
    return static_cast<float>(task.counts_padding
                                  ? task.rows.kernel * task.columns.kernel
                                  : (rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class Element>
void average_forward(const PoolTask& task, const Element* x, Element* y) {
    for_lanes(task, [&](auto width, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kWidth = decltype(width)::value;
        using V = Vector<kWidth>;
        for_outputs(task, [&](const PoolTaps& rows, const PoolTaps& columns,
                              std::int64_t output) COHORT_INLINE {
            V sum = {};
            V line = {};
            PoolTaps row = rows;
            for (row.begin = rows.begin; row.begin < rows.end; ++row.begin) {
                row.end = row.begin + 1;
                line = V{};
                for_taps(task, row, columns, [&](std::int64_t input, std::int64_t) COHORT_INLINE {
                    line += load<kWidth>(x + in + input * task.lanes);
                });
                sum += line;
            }
            store<kWidth>(y + out + output * task.lanes, sum / cells_of(task, rows, columns));
        });
    });
}

template <class Element>
void average_backward(const PoolTask& task, const Element* gradient, Element* gradient_x) {
    for_lanes(task, [&](auto width, std::int64_t in, std::int64_t out) COHORT_INLINE {
        constexpr int kWidth = decltype(width)::value;
        using V = Vector<kWidth>;
        for_inputs(task, [&](std::int64_t row, std::int64_t column,
                             std::int64_t input) COHORT_INLINE {
            V sum = {};
            for_uses(
                task, row, column, [&](const PoolUse& down, const PoolUse& across) COHORT_INLINE {
                    const std::int64_t i =
                        out + (down.output * task.columns.outputs + across.output) * task.lanes;
                    sum += load<kWidth>(gradient + i) *
                           (1.0F / cells_of(task, task.rows.taps[down.output],
                                            task.columns.taps[across.output]));
                });
            store<kWidth>(gradient_x + in + input * task.lanes, sum);
        });
    });
}

}  // namespace
}  // namespace cohort
