#pragma once

#include <cstdint>

#include "cohort/layers/window.hpp"

namespace cohort {

/// 2-D convolution of [C,H,W]; weight [channels, C/groups, kernel_h, kernel_w].
/// `.kernel = 3` is square, `.kernel = {1, 7}` one high and seven wide; `.padding = {0, 3, 0, 3}`
/// is top, left, bottom, right.
struct ConvOptions {
    std::int64_t channels = 0;  ///< output channels
    PerAxis kernel = 3;
    PerAxis stride = 1;
    Padding padding = 0;   ///< zeros
    PerAxis dilation = 1;  ///< 1 = dense kernel
    std::int64_t groups = 1;
    bool bias = true;
};

/// y = W x + b on [F], or on [T,F] at every position; weight [features, F].
struct LinearOptions {
    std::int64_t features = 0;
    bool bias = true;
    /// The weight starts uniform in +-1/sqrt(F), as is usual in networks of text, instead of normal
    /// with variance 2/F.
    bool uniform = false;
};

/// Long short-term memory over the positions of [T,F], first to last; hidden and cell state start
/// at zero. Gates in the order input, forget, cell candidate, output: weight_input [4 hidden, F],
/// weight_hidden [4 hidden, hidden], one bias [4 hidden].
struct LstmOptions {
    std::int64_t hidden = 0;
};

/// Batch normalisation over batch, height and width (Ioffe & Szegedy 2015).
struct BatchNormOptions {
    float epsilon = 1e-5F;
};

/// A row of a table [V, features] per token.
struct EmbeddingOptions {
    std::int64_t features = 0;
};

/// y = scale x + table on [T,F], a row of the table per position.
struct PositionOptions {
    bool learned = true;  ///< a parameter [T,F]; false: sines and cosines (Vaswani et al. 2017)
    float scale = 1;
};

/// Normalisation of the features of every position (Ba et al. 2016).
struct LayerNormOptions {
    float epsilon = 1e-5F;
};

/// Scaled dot products of queries, keys and values [T,3F], F a multiple of the heads.
struct AttentionOptions {
    std::int64_t heads = 1;
    bool causal = true;  ///< a position sees itself and those before it
};

/// Every window must hold a cell of the image.
struct PoolOptions {
    PerAxis kernel = 2;
    PerAxis stride = 2;
    Padding padding = 0;  ///< max: ignored cells
    PerAxis dilation = 1;
    bool count_padding = false;  ///< average: divide by all cells of a window, else by the image's
};

}  // namespace cohort
