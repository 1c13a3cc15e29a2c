#include "layers/cpu/batch_norm_loops.hpp"

#include "layers/cpu/level/level_loops.hpp"

namespace cohort {

template <class Element>
void bn_statistics(const ChannelView& view, const Element* x, const float* shift, double* sum,
                   double* square) {
    level_loops<Element>().batch_norm.statistics(view, x, shift, sum, square);
}

template <class Element>
void bn_apply(const ChannelView& view, const Element* x, const float* scale, const float* offset,
              const Element* added, bool relu, Element* y) {
    level_loops<Element>().batch_norm.apply(view, x, scale, offset, added, relu, y);
}

template <class Element>
void bn_reduce(const ChannelView& view, const BnChannels& channels, ReluMask mask, const Element* x,
               const Element* y, Element* gradient, double* sum, double* product) {
    level_loops<Element>().batch_norm.reduce(view, channels, mask, x, y, gradient, sum, product);
}

template <class Element>
void bn_input_gradient(const ChannelView& view, const Element* x, const Element* gradient,
                       const float* mean, const float* a, const float* b, const float* d,
                       Element* gradient_x) {
    level_loops<Element>().batch_norm.input_gradient(view, x, gradient, mean, a, b, d, gradient_x);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define COHORT_BATCH_NORM(ELEMENT)                                                           \
    template void bn_statistics(const ChannelView&, const ELEMENT*, const float*, double*,   \
                                double*);                                                    \
    template void bn_apply(const ChannelView&, const ELEMENT*, const float*, const float*,   \
                           const ELEMENT*, bool, ELEMENT*);                                  \
    template void bn_reduce(const ChannelView&, const BnChannels&, ReluMask, const ELEMENT*, \
                            const ELEMENT*, ELEMENT*, double*, double*);                     \
    template void bn_input_gradient(const ChannelView&, const ELEMENT*, const ELEMENT*,      \
                                    const float*, const float*, const float*, const float*,  \
                                    ELEMENT*);
COHORT_BATCH_NORM(float)
COHORT_BATCH_NORM(std::uint16_t)
#undef COHORT_BATCH_NORM
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace cohort
