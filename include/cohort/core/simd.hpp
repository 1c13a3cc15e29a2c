#pragma once

/// Put before a function whose loops should be compiled for several instruction sets and chosen
/// at load time, so that a generic x86-64 build still uses AVX2 or AVX-512. Empty under
/// sanitizers (their run time is not up yet when the choice is made) and elsewhere.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COHORT_VECTOR_CLONES \
    __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define COHORT_VECTOR_CLONES
#endif
