#include "layers/cpu/level/level_loops.hpp"

#include "layers/cpu/dnnl_support.hpp"

namespace cohort {
namespace {

template <class Element>
const LevelLoops<Element>& loops_of([[maybe_unused]] VectorLevel level) {
#if defined(__x86_64__)
    switch (level) {
        case VectorLevel::kAvx512: return avx512_loops<Element>();
        case VectorLevel::kAvx2: return avx2_loops<Element>();
        case VectorLevel::kAvx:
        case VectorLevel::kSse: break;
    }
#endif
    return sse_loops<Element>();
}

}  // namespace

template <>
const LevelLoops<float>& level_loops() {
    static const LevelLoops<float>& loops = loops_of<float>(vector_level());
    return loops;
}
template <>
const LevelLoops<std::uint16_t>& level_loops() {
    static const LevelLoops<std::uint16_t>& loops = loops_of<std::uint16_t>(vector_level());
    return loops;
}

}  // namespace cohort
