#include "layers/cpu/conv/conv_source.hpp"

#include <algorithm>
#include <cstring>

#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/format_cpu.hpp"

// Products of lanes, vectors and taps are small.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

namespace cohort {
namespace {

// A chunk's source, and a panel of weights, stay in the second level of cache.
constexpr std::int64_t kChunkFloats = 48 * 1024;
constexpr std::int64_t kChunkPixels = 4096;

/// Floats from pixel to pixel: pixels whose distance is a multiple of 256 bytes fall into few sets
/// of the first level of cache.
std::int64_t apart(std::int64_t pixel) {
    constexpr std::int64_t kLine = 16;
    return pixel % (4 * kLine) == 0 ? pixel + kLine : pixel;
}

/// Row-major to pixels: some channels at a time, so that what is written lies together.
void copy_plain_row(const float* from, std::int64_t plane, std::int64_t channels,
                    std::int64_t count, std::int64_t pixel, float* to) {
    constexpr std::int64_t kTogether = 4;
    std::int64_t c = 0;
    for (; c + kTogether <= channels; c += kTogether) {
        const float* source = from + c * plane;
        float* target = to + c;
        for (std::int64_t x = 0; x < count; ++x) {
            const float values[kTogether] = {source[x], source[x + plane], source[x + 2 * plane],
                                             source[x + 3 * plane]};
            std::memcpy(target + x * pixel, values, sizeof values);
        }
    }
    for (; c < channels; ++c) {
        for (std::int64_t x = 0; x < count; ++x) {
            to[x * pixel + c] = from[c * plane + x];
        }
    }
}

template <std::int64_t kBlock>
void copy_blocks(const float* from, std::int64_t count, std::int64_t pixel, float* to) {
    for (std::int64_t x = 0; x < count; ++x) {
        std::memcpy(to + x * pixel, from + x * kBlock, kBlock * sizeof(float));
    }
}

}  // namespace

ConvSource::ConvSource(const ConvGeometry& geometry, const TensorFormat& format,
                       std::int64_t groups, std::int64_t pixel)
    : geometry_(geometry), format_(format), groups_(groups) {
    const std::int64_t channels = format.shape[0];
    as_it_lies_ = geometry.within_source() && format.block >= pixel;
    width_ = as_it_lies_ ? geometry.source.width : geometry.columns_under(geometry.columns());
    pixel_ = as_it_lies_ ? format.block : apart(pixel);
    padded_ = pixel != channels;
    const std::int64_t all = geometry.rows();
    const std::int64_t least = 2 * (geometry.reach.height + 1);
    rows_ = std::min(all, least);
    while (rows_ < all && geometry.rows_under(rows_ + 1) * width_ * channels <= kChunkFloats &&
           (rows_ + 1) * geometry.columns() <= kChunkPixels) {
        ++rows_;
    }
    rows_under_ = geometry.rows_under(rows_);
}

std::int64_t ConvSource::samples_at_once(std::int64_t samples) const {
    if (rows_ < geometry_.rows()) {
        return 1;
    }
    const std::int64_t floats = rows_under_ * width_ * format_.shape[0];
    const std::int64_t pixels = rows_ * geometry_.columns();
    return std::clamp<std::int64_t>(std::min(kChunkFloats / floats, kChunkPixels / pixels), 1,
                                    samples);
}

std::vector<ConvChunk> ConvSource::chunks(std::int64_t samples) const {
    std::vector<ConvChunk> all;
    const std::int64_t together = samples_at_once(samples);
    for (std::int64_t n = 0; n < samples; n += together) {
        for (std::int64_t row = 0; row < geometry_.rows(); row += rows_) {
            all.push_back({.first_sample = n,
                           .samples = std::min(together, samples - n),
                           .first_row = row,
                           .rows = std::min(rows_, geometry_.rows() - row)});
        }
    }
    return all;
}

std::size_t ConvSource::scratch_bytes(std::int64_t samples) const {
    return as_it_lies_ ? 0
                       : static_cast<std::size_t>(samples_at_once(samples) * rows_under_ * width_ *
                                                  pixel_) *
                             sizeof(float);
}

std::int64_t ConvSource::most_pixels(std::int64_t samples) const {
    return samples_at_once(samples) * rows_ * geometry_.columns();
}

void ConvSource::copy_row(const float* sample, std::int64_t row, float* to) const {
    const auto [height, width] = geometry_.source;
    const std::int64_t first = std::clamp<std::int64_t>(-geometry_.origin.width, 0, width_);
    const std::int64_t last = std::clamp(width - geometry_.origin.width, first, width_);
    const bool outside = row < 0 || row >= height || first == last;
    const std::int64_t channels = format_.shape[0];
    if (outside || padded_) {
        std::fill_n(to, width_ * pixel_, 0.0F);
    } else {
        std::fill_n(to, first * pixel_, 0.0F);
        std::fill_n(to + last * pixel_, (width_ - last) * pixel_, 0.0F);
    }
    if (outside) {
        return;
    }
    const std::int64_t block = format_.block;
    const std::int64_t plane = height * width;
    const std::int64_t begin = row * width + geometry_.origin.width + first;
    float* target = to + first * pixel_;
    const std::int64_t count = last - first;
    if (block == 1) {
        copy_plain_row(sample + begin, plane, channels, count, pixel_, target);
        return;
    }
    for (std::int64_t c = 0; c < channels; c += block) {
        const float* from = sample + c * plane + begin * block;
        const std::int64_t together = std::min(block, channels - c);
        if (together == 16) {
            copy_blocks<16>(from, count, pixel_, target + c);
        } else if (together == 8 && block == 8) {
            copy_blocks<8>(from, count, pixel_, target + c);
        } else {
            for (std::int64_t x = 0; x < count; ++x) {
                std::copy_n(from + x * block, together, target + x * pixel_ + c);
            }
        }
    }
}

const float* ConvSource::load(const ConvChunk& chunk, const float* tensor, float* scratch) const {
    const std::int64_t sample = format_.sample_floats();
    const std::int64_t first = chunk.first_row * geometry_.step.height + geometry_.origin.height;
    if (as_it_lies_) {
        return tensor + chunk.first_sample * sample +
               (first * width_ + geometry_.origin.width) * pixel_;
    }
    for (std::int64_t n = 0; n < chunk.samples; ++n) {
        for (std::int64_t row = 0; row < geometry_.rows_under(chunk.rows); ++row) {
            copy_row(tensor + (chunk.first_sample + n) * sample, first + row,
                     scratch + (n * rows_under_ + row) * width_ * pixel_);
        }
    }
    return scratch;
}

std::size_t ConvSource::Pixels::count(const ConvChunk& chunk) const {
    const std::int64_t held = std::clamp<std::int64_t>(rows - chunk.first_row, 0, chunk.rows);
    return static_cast<std::size_t>(chunk.samples * held * columns);
}

ConvSource::Pixels ConvSource::pixels(const ConvPhase& phase, const TensorFormat& target,
                                      std::int64_t samples) const {
    Pixels pixels{.rows = phase.rows, .columns = phase.columns};
    // A phase with fewer rows than the first lacks the last one: in the last chunk of a sample.
    const std::int64_t rows = std::min(rows_, phase.rows);
    const std::int64_t sample =
        as_it_lies_ ? format_.sample_floats() : rows_under_ * width_ * pixel_;
    for (std::int64_t n = 0; n < samples_at_once(samples); ++n) {
        for (std::int64_t q = 0; q < rows; ++q) {
            for (std::int64_t t = 0; t < phase.columns; ++t) {
                const std::int64_t place =
                    n * sample +
                    (q * geometry_.step.height * width_ + t * geometry_.step.width) * pixel_;
                const std::int64_t row = q * geometry_.jump.height + phase.row;
                const std::int64_t column = t * geometry_.jump.width + phase.column;
                pixels.places.push_back(static_cast<std::int32_t>(place));
                pixels.targets.push_back(static_cast<std::int32_t>(
                    n * target.sample_floats() +
                    (row * geometry_.target.width + column) * target.block));
            }
        }
    }
    return pixels;
}

std::int64_t ConvSource::target_start(const ConvChunk& chunk, const TensorFormat& target) const {
    return chunk.first_sample * target.sample_floats() +
           chunk.first_row * geometry_.jump.height * geometry_.target.width * target.block;
}

std::vector<ConvRun> ConvSource::runs(const ConvPhase& phase, std::int64_t group) const {
    std::vector<ConvRun> runs;
    const std::int64_t channels = format_.shape[0] / groups_;
    for (const ConvTap& tap : phase.taps) {
        const auto offset =
            static_cast<std::int32_t>((tap.row * width_ + tap.column) * pixel_ + group * channels);
        if (!runs.empty() && runs.back().offset + runs.back().length == offset) {
            runs.back().length += static_cast<std::int32_t>(channels);
        } else {
            runs.push_back({offset, static_cast<std::int32_t>(channels)});
        }
    }
    return runs;
}

}  // namespace cohort
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
