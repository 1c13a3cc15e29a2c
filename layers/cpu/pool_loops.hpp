#pragma once

#include <cstdint>
#include <vector>

#include "cohort/layers/window.hpp"
#include "layers/cpu/level/pool_task.hpp"

// The loops of pooling over one slice. Tensors of std::uint16_t are bfloat16: computed in single
// precision, rounded when they are stored.
namespace cohort {

/// Windows along one axis.
class PoolAxis {
public:
    PoolAxis(const WindowAxis& window, std::int64_t inputs, std::int64_t outputs);

    [[nodiscard]] std::int64_t kernel() const noexcept { return kernel_; }
    /// What the loops read; as long as this lives.
    [[nodiscard]] PoolLine line() const;

private:
    std::int64_t dilation_;
    std::int64_t kernel_;
    std::vector<PoolTaps> outputs_;
    std::vector<PoolUse> uses_;  ///< input by input
    std::vector<std::int64_t> first_use_;
};

struct PoolView {
    const PoolAxis* rows = nullptr;
    const PoolAxis* columns = nullptr;
    std::int64_t planes = 0;  ///< of `lanes` channels, of all samples
    std::int64_t lanes = 1;
    bool counts_padding = false;  ///< an average is that of the whole window
};

/// y = the largest of each window, NaN where there is one; `taps`: which it was, the first of
/// several, or null.
template <class Element, class Tap>
void max_pool_forward(const PoolView& view, const Element* x, Element* y, Tap* taps);
template <class Element, class Tap>
void max_pool_backward(const PoolView& view, const Element* gradient, const Tap* taps,
                       Element* gradient_x);
template <class Element>
void average_pool_forward(const PoolView& view, const Element* x, Element* y);
template <class Element>
void average_pool_backward(const PoolView& view, const Element* gradient, Element* gradient_x);

}  // namespace cohort
