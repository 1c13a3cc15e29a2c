#include "layers/cpu/level/level_loops.hpp"

#include "layers/cpu/dnnl_support.hpp"

namespace cohort {

const LevelLoops& level_loops() {
#if defined(__x86_64__)
    static const VectorLevel level = vector_level();
    switch (level) {
        case VectorLevel::kAvx512: return avx512_loops();
        case VectorLevel::kAvx2: return avx2_loops();
        case VectorLevel::kAvx:
        case VectorLevel::kSse: break;
    }
#endif
    return sse_loops();
}

}  // namespace cohort
