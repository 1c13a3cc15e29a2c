#pragma once

/// Marks an inline function that runs on the host and, in files that nvcc compiles, on the GPU.
/// Index arithmetic and numerics of the CUDA kernels are such functions, so that unit tests on the
/// CPU cover them.
#if defined(__CUDACC__)
#define COHORT_HD __host__ __device__
#else
#define COHORT_HD
#endif
