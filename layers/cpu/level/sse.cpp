// LevelLoops for what every x86-64 processor has: see the compile options in layers/CMakeLists.txt.
// Nothing else belongs here: an inline function of another header that is not inlined may become
// the copy that the whole program uses, on processors without these instructions too.
#include "layers/cpu/level/level_table.hpp"

namespace cohort {

template <>
const LevelLoops<float>& sse_loops() {
    return kLoops<float>;
}
template <>
const LevelLoops<std::uint16_t>& sse_loops() {
    return kLoops<std::uint16_t>;
}

}  // namespace cohort
