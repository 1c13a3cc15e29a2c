#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layers/cpu/conv/conv_geometry.hpp"
#include "layers/cpu/conv/conv_loops.hpp"

namespace cohort {

/// A part of a slice's pixels that is computed before the next one: rows of one sample, or all rows
/// of some samples; small enough for its source to stay in cache.
struct ConvChunk {
    std::int64_t first_sample = 0;
    std::int64_t samples = 0;
    std::int64_t first_row = 0;  ///< of every phase
    std::int64_t rows = 0;
};

/// A convolution's source as our loops read it: with the channels of a pixel side by side and zeros
/// around, in scratch memory; or as it lies, where it is so already.
class ConvSource {
public:
    /// @param format  of the tensor that the geometry calls source
    /// @param groups  1: all channels are summed over  @param pixel  channels of a pixel with zeros
    /// behind its own; at least those that the tensor has
    ConvSource(const ConvGeometry& geometry, const TensorFormat& format, std::int64_t groups,
               std::int64_t pixel);

    /// Chunks of a slice, in order.
    [[nodiscard]] std::vector<ConvChunk> chunks(std::int64_t samples) const;
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const;
    /// Pixels of a chunk, over all phases the most.
    [[nodiscard]] std::int64_t most_pixels(std::int64_t samples) const;
    /// What pixels' places count from: copies the chunk to `scratch` where that is needed.
    [[nodiscard]] const float* load(const ConvChunk& chunk, const float* tensor,
                                    float* scratch) const;

    /// Of the pixels of a chunk, sample by sample: places in the source and in the target, the
    /// latter counted from target_start(). @param most_samples  of a chunk
    struct Pixels {
        std::vector<std::int32_t> places;
        std::vector<std::int32_t> targets;
        std::int64_t rows = 0;     ///< of one sample
        std::int64_t columns = 0;  ///< of one row
        [[nodiscard]] std::size_t count(const ConvChunk& chunk) const;
    };
    [[nodiscard]] Pixels pixels(const ConvPhase& phase, const TensorFormat& target,
                                std::int64_t samples) const;
    [[nodiscard]] std::int64_t target_start(const ConvChunk& chunk,
                                            const TensorFormat& target) const;
    /// The runs of a group's channels under all taps: tap by tap, then channel by channel.
    [[nodiscard]] std::vector<ConvRun> runs(const ConvPhase& phase, std::int64_t group) const;

private:
    void copy_row(const float* sample, std::int64_t row, float* to) const;
    [[nodiscard]] std::int64_t samples_at_once(std::int64_t samples) const;

    ConvGeometry geometry_;
    TensorFormat format_;
    std::int64_t groups_;
    bool as_it_lies_;
    bool padded_ = false;          ///< pixels end with zeros
    std::int64_t width_ = 0;       ///< pixels from row to row
    std::int64_t pixel_ = 0;       ///< floats from pixel to pixel
    std::int64_t rows_ = 0;        ///< of a chunk
    std::int64_t rows_under_ = 0;  ///< of the source
};

}  // namespace cohort
