# Tests of the CUDA backend: convolution, batch norm, pooling, layouts.
