#pragma once

#include <cstdint>
#include <type_traits>

#include "core/system/simd.hpp"
#include "layers/cpu/lanes.hpp"

namespace cohort {
namespace {

/// Words in a register of the instructions that this source is compiled for. Where functions get
/// copies for several sets of instructions instead (target_clones), GCC 12 takes vectors apart that
/// are wider than the plainest of them, before it makes the copies, and does not put selections
/// together again (findings/gcc_target_clones_vectors.sh).
// NOLINTBEGIN(misc-definitions-in-headers): a copy for each level
#if defined(__AVX512F__)
constexpr int kRegister = 16;
#elif defined(__AVX2__)
constexpr int kRegister = 8;
#else
constexpr int kRegister = 4;
#endif
// NOLINTEND(misc-definitions-in-headers)

/// Calls f with the number of lanes to be handled at once, a constant that divides `lanes`.
template <class F>
COHORT_INLINE inline void with_width(std::int64_t lanes, F&& f) {
    if (lanes % kRegister == 0) {
        f(std::integral_constant<int, kRegister>{});
    } else if (kRegister > 8 && lanes % 8 == 0) {
        f(std::integral_constant<int, 8>{});
    } else {
        f(std::integral_constant<int, 1>{});
    }
}

}  // namespace
}  // namespace cohort
