#pragma once

#include <cstdint>

namespace cohort {

/// 2-D convolution of [C,H,W]; weight [channels, C/groups, kernel_h, kernel_w].
struct ConvOptions {
    std::int64_t channels = 0;  ///< output channels
    std::int64_t kernel = 3;    ///< square kernel
    std::int64_t stride = 1;
    std::int64_t padding = 0;   ///< zeros on all four sides
    std::int64_t dilation = 1;  ///< 1 = dense kernel
    std::int64_t groups = 1;
    bool bias = true;
};

/// y = W x + b on [F]; weight [features, F].
struct LinearOptions {
    std::int64_t features = 0;
    bool bias = true;
};

/// Batch normalisation over batch, height and width (Ioffe & Szegedy 2015).
struct BatchNormOptions {
    float epsilon = 1e-5F;
};

struct PoolOptions {
    std::int64_t kernel = 2;
    std::int64_t stride = 2;
    std::int64_t padding = 0;  ///< max: ignored cells; average: not counted in the divisor
};

}  // namespace cohort
