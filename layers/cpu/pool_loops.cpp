#include "layers/cpu/pool_loops.hpp"

#include <type_traits>

#include "layers/cpu/level/level_loops.hpp"

namespace cohort {
namespace {

template <class Element, class Tap>
const MaxPoolLoops<Element, Tap>& max_pool_loops() {
    const LevelLoops<Element>& loops = level_loops<Element>();
    if constexpr (std::is_same_v<Tap, std::uint8_t>) {
        return loops.max_pool;
    } else {
        return loops.max_pool_of_many;
    }
}

PoolTask task_of(const PoolView& view) {
    return {.rows = view.rows->line(),
            .columns = view.columns->line(),
            .planes = view.planes,
            .lanes = view.lanes,
            .counts_padding = view.counts_padding};
}

}  // namespace

PoolAxis::PoolAxis(const WindowAxis& window, std::int64_t input_count, std::int64_t output_count)
    : dilation_(window.dilation),
      kernel_(window.kernel),
      outputs_(static_cast<std::size_t>(output_count)) {
    std::vector<std::vector<PoolUse>> uses(static_cast<std::size_t>(input_count));
    for (std::int64_t o = 0; o < output_count; ++o) {
        PoolTaps& taps = outputs_[static_cast<std::size_t>(o)];
        taps.cell = o * window.stride - window.before;
        const auto outside = [&](std::int64_t tap) {
            return taps.cell + tap * dilation_ < 0 || taps.cell + tap * dilation_ >= input_count;
        };
        while (taps.begin < kernel_ && outside(taps.begin)) {
            ++taps.begin;
        }
        for (taps.end = taps.begin; taps.end < kernel_ && !outside(taps.end); ++taps.end) {
            uses[static_cast<std::size_t>(taps.cell + taps.end * dilation_)].push_back(
                {o, taps.end});
        }
    }
    first_use_.push_back(0);
    for (const std::vector<PoolUse>& of_input : uses) {
        uses_.insert(uses_.end(), of_input.begin(), of_input.end());
        first_use_.push_back(std::ssize(uses_));
    }
}

PoolLine PoolAxis::line() const {
    return {.dilation = dilation_,
            .kernel = kernel_,
            .outputs = std::ssize(outputs_),
            .inputs = std::ssize(first_use_) - 1,
            .taps = outputs_.data(),
            .uses = uses_.data(),
            .first_use = first_use_.data()};
}

template <class Element, class Tap>
void max_pool_forward(const PoolView& view, const Element* x, Element* y, Tap* taps) {
    max_pool_loops<Element, Tap>().forward(task_of(view), x, y, taps);
}

template <class Element, class Tap>
void max_pool_backward(const PoolView& view, const Element* gradient, const Tap* taps,
                       Element* gradient_x) {
    max_pool_loops<Element, Tap>().backward(task_of(view), gradient, taps, gradient_x);
}

template <class Element>
void average_pool_forward(const PoolView& view, const Element* x, Element* y) {
    level_loops<Element>().average_pool.forward(task_of(view), x, y);
}

template <class Element>
void average_pool_backward(const PoolView& view, const Element* gradient, Element* gradient_x) {
    level_loops<Element>().average_pool.backward(task_of(view), gradient, gradient_x);
}

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define COHORT_MAX_POOL(ELEMENT, TAP)                                                \
    template void max_pool_forward(const PoolView&, const ELEMENT*, ELEMENT*, TAP*); \
    template void max_pool_backward(const PoolView&, const ELEMENT*, const TAP*, ELEMENT*);
COHORT_MAX_POOL(float, std::uint8_t)
COHORT_MAX_POOL(float, std::uint32_t)
COHORT_MAX_POOL(std::uint16_t, std::uint8_t)
COHORT_MAX_POOL(std::uint16_t, std::uint32_t)
#undef COHORT_MAX_POOL
#define COHORT_AVERAGE_POOL(ELEMENT)                                               \
    template void average_pool_forward(const PoolView&, const ELEMENT*, ELEMENT*); \
    template void average_pool_backward(const PoolView&, const ELEMENT*, ELEMENT*);
COHORT_AVERAGE_POOL(float)
COHORT_AVERAGE_POOL(std::uint16_t)
#undef COHORT_AVERAGE_POOL
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace cohort
