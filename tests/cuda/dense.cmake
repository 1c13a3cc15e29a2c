# Tests of the CUDA backend: products, elementwise layers, losses, optimizers.
