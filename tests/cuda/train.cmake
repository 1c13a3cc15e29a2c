# Tests of the CUDA backend: jobs on GPUs.
