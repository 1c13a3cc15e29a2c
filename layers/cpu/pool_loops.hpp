#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/layers/window.hpp"

// The loops of pooling over one slice. Tensors of std::uint16_t are bfloat16: computed in single
// precision, rounded when they are stored.
namespace cohort {

/// Windows along one axis.
struct PoolAxis {
    PoolAxis(const WindowAxis& window, std::int64_t inputs, std::int64_t outputs);

    /// The taps of an output that lie within the image.
    struct Taps {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::int64_t cell = 0;  ///< under tap 0; may lie outside
    };
    /// An output that reads an input, and by which tap.
    struct Use {
        std::int64_t output = 0;
        std::int64_t tap = 0;
    };
    std::int64_t dilation;
    std::int64_t kernel;
    std::vector<Taps> outputs;
    std::vector<std::vector<Use>> inputs;
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
