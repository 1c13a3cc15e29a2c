// Stands in for GCC's omp.h while clang-tidy reads the sources: that header has attributes that
// clang does not know.
#pragma once

extern "C" void omp_set_num_threads(int threads);
