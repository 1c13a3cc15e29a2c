# Tests of the CUDA backend: device, recordings, executor, NCCL rings.
