# Tests of the CUDA backend: the backend against the CPU and the double-precision reference.
