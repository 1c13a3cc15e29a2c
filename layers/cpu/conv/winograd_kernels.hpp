#pragma once

#include <cstdint>

#include "layers/cpu/dnnl_support.hpp"

namespace cohort {

/// Activations of a slice, in channel blocks [N, C/b, H, W, b].
struct WinogradImage {
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t channels = 0;  ///< whole blocks
    std::int64_t block = 8;
    const float* zeros = nullptr;  ///< a row of it, for rows outside
    [[nodiscard]] std::int64_t sample_floats() const { return channels * height * width; }
};

/// Consecutive tiles of a slice, in the order [sample, row of tiles, column of tiles].
struct WinogradTiles {
    std::int64_t rows = 0;     ///< of tiles in a sample
    std::int64_t columns = 0;  ///< likewise
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t offset = 0;  ///< row and column of the source at which the first tile begins
};

/// Transformed tiles or weights: [channels / width, points, rows, width]; a row is a tile, or an
/// input channel where they are weights. The stride between points is no power of two, so that a
/// tile's points do not compete for one set of the cache.
struct WinogradOperand {
    float* data = nullptr;
    std::int64_t width = 0;         ///< channels that lie together
    std::int64_t point_stride = 0;  ///< floats
    std::int64_t panel_stride = 0;  ///< floats; between groups of `width` channels
};

/// Weights [O, I, 3, 3] as a direction reads them. kData: the outputs are the layer's inputs, and
/// the taps are read from the last to the first.
struct WinogradWeights {
    std::int64_t inputs = 0;
    std::int64_t outputs = 0;
    std::int64_t input_stride = 0;  ///< floats
    std::int64_t output_stride = 0;
    bool turned = false;
};

/// One product for every point: to[row, column] = sum over depth of a[row, depth] b[depth, column].
struct WinogradProduct {
    std::int64_t rows = 0;
    std::int64_t depth = 0;
    std::int64_t a_stride = 0;  ///< floats: between rows of a, or between its depths if transposed
    int vectors = 0;            ///< of a panel's two columns of vectors those that are used
    bool adds = false;          ///< to the sums in `to`; false: assigns
};

/// The inner loops for one set of instructions and one kind of tile.
struct WinogradKernels {
    std::int64_t panel;   ///< output channels that a product computes at once: two vectors
    std::int64_t rows;    ///< that it computes at once
    std::int64_t output;  ///< rows of the output that a tile makes
    std::int64_t points;  ///< of both dimensions

    /// B^T d B.
    void (*source)(const WinogradImage&, const WinogradTiles&, const float* from,
                   const WinogradOperand& to);
    /// A dy A^T. @param sums  [channels], the sum of dy is added; or null
    void (*gradient)(const WinogradImage&, const WinogradTiles&, const float* from,
                     const WinogradOperand& to, float* sums);
    /// A^T m A plus bias, of the panel of channels that begins at `channel`. @param bias [channels]
    /// or null
    void (*make_output)(const WinogradImage&, const WinogradTiles&, const WinogradOperand& from,
                        std::int64_t channel, const float* bias, float* to);
    /// G g G^T of the panel of outputs that begins at `output`; zeros for outputs there are not.
    void (*weights)(const WinogradWeights&, std::int64_t output, const float* from,
                    const WinogradOperand& to);
    /// G^T m G of one panel of outputs. @param to  [inputs, 3, 3, panel]
    void (*weight_gradient)(std::int64_t inputs, const WinogradOperand& from, bool adds, float* to);

    /// `a` begins with its first row, `b` and `to` have rows of `panel` floats.
    void (*product)(const WinogradProduct&, const float* a, const float* b, float* to);
    void (*transposed_product)(const WinogradProduct&, const float* a, const float* b, float* to);
};

enum class WinogradTile { kF4, kMap2 };

[[nodiscard]] const WinogradKernels& winograd_kernels(WinogradTile tile, VectorLevel level);

}  // namespace cohort
