// LevelLoops for what every x86-64 processor has: see the compile options in layers/CMakeLists.txt.
// Nothing else belongs here: an inline function of another header that is not inlined may become
// the copy that the whole program uses, on processors without these instructions too.
#include "layers/cpu/level/level_table.hpp"

namespace cohort {

const LevelLoops& sse_loops() {
    return kLevelLoops;
}

}  // namespace cohort
