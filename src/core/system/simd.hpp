#pragma once

/// Marks a function to be compiled for several instruction sets; the best one this machine has is
/// picked when the program starts, so a generic x86-64 build still uses wide vectors. Sanitizers
/// do not support the mechanism (ifunc) and get the plain function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COHORT_SIMD_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define COHORT_SIMD_CLONES
#endif
