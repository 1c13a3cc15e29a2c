#pragma once

#include <type_traits>

/// Marks a function to be compiled for several instruction sets; the best one this machine has is
/// picked when the program starts, so a generic x86-64 build still uses wide vectors. Sanitizers
/// do not support the mechanism (ifunc) and get the plain function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COHORT_SIMD_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define COHORT_SIMD_CLONES
#endif

/// Of what such functions call, lambdas too: it becomes part of each of their copies.
#define COHORT_INLINE __attribute__((always_inline))

namespace cohort {

/// Calls f with that of the constants `all` which `value` is.
template <auto... all, class Value, class F>
COHORT_INLINE inline void with_constant(Value value, F&& f) {
    static_cast<void>(((value == all && (f(std::integral_constant<Value, all>{}), true)) || ...));
}

}  // namespace cohort
