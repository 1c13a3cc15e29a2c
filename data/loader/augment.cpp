// Normalisation and augmentation of one sample, some microseconds for a 3x32x32 image: every row
// is one vectorised pass from the stored bytes to its place in the batch.
#include "cohort/data/augment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "core/system/simd.hpp"

namespace cohort {
namespace detail {

/// An image and the crop that is wanted of it, see ImageCrop.
struct CropWork {
    std::int64_t channels;
    std::int64_t height;
    std::int64_t width;
    std::int64_t down;
    std::int64_t right;
    bool flip;
    const float* mean;     ///< [channels]
    const float* inverse;  ///< [channels]
};

template <class Stored>
[[gnu::always_inline]] inline void normalise_run(const Stored* __restrict from, std::int64_t n,
                                                 float mean, float inverse, float* __restrict to) {
    for (std::int64_t i = 0; i < n; ++i) {
        to[i] = (static_cast<float>(from[i]) - mean) * inverse;
    }
}

template <class Stored>
[[gnu::always_inline]] inline void normalise_mirrored(const Stored* __restrict from, std::int64_t n,
                                                      float mean, float inverse,
                                                      float* __restrict to) {
    for (std::int64_t i = 0; i < n; ++i) {
        to[n - 1 - i] = (static_cast<float>(from[i]) - mean) * inverse;
    }
}

template <class Stored>
[[gnu::always_inline]] inline void crop_image(const CropWork& crop, const Stored* from, float* to) {
    const std::int64_t width = crop.width;
    const std::int64_t first = std::max<std::int64_t>(0, -crop.right);  // columns with a source
    const std::int64_t last = std::min(width, width - crop.right);
    for (std::int64_t channel = 0; channel < crop.channels; ++channel) {
        for (std::int64_t y = 0; y < crop.height; ++y, to += width) {
            const std::int64_t row = y + crop.down;
            if (row < 0 || row >= crop.height) {
                std::fill_n(to, width, 0.0F);
                continue;
            }
            const Stored* source =
                from + (channel * crop.height + row) * width + first + crop.right;
            const float mean = crop.mean[channel];
            const float inverse = crop.inverse[channel];
            const std::int64_t left = crop.flip ? width - last : first;
            std::fill_n(to, left, 0.0F);
            if (crop.flip) {
                normalise_mirrored(source, last - first, mean, inverse, to + left);
            } else {
                normalise_run(source, last - first, mean, inverse, to + left);
            }
            std::fill_n(to + left + (last - first), width - left - (last - first), 0.0F);
        }
    }
}

// Overloads, not templates: the compiler makes clones of functions only.
COHORT_SIMD_CLONES void crop(const CropWork& wanted, const std::uint8_t* from, float* to) {
    crop_image(wanted, from, to);
}

COHORT_SIMD_CLONES void crop(const CropWork& wanted, const float* from, float* to) {
    crop_image(wanted, from, to);
}

COHORT_SIMD_CLONES void normalise(const std::uint8_t* from, std::int64_t n, float mean,
                                  float inverse, float* to) {
    normalise_run(from, n, mean, inverse, to);
}

COHORT_SIMD_CLONES void normalise(const float* from, std::int64_t n, float mean, float inverse,
                                  float* to) {
    normalise_run(from, n, mean, inverse, to);
}

}  // namespace detail

namespace {

void check_statistics(const SampleSetInfo& info, std::int64_t channels) {
    const bool one = info.sample_shape.size() == 1 && info.mean.size() == 1;
    const std::size_t expected = one ? 1 : static_cast<std::size_t>(channels);
    if (info.mean.size() != expected || info.std.size() != expected) {
        fail<ShapeError>({.where = "normalisation",
                          .what = "mean and std do not fit the samples",
                          .expected = fmt::format("{} of each", channels),
                          .got = fmt::format("{} and {}", info.mean.size(), info.std.size())});
    }
    for (std::size_t i = 0; i < expected; ++i) {
        if (!std::isfinite(info.mean[i]) || !std::isfinite(info.std[i]) || !(info.std[i] > 0)) {
            fail<ShapeError>({.where = "normalisation",
                              .what = fmt::format("unusable statistics of channel {}", i),
                              .expected = "finite numbers, std > 0",
                              .got = fmt::format("mean {}, std {}", info.mean[i], info.std[i])});
        }
    }
}

/// Of a regression. Errors: ShapeError.
void check_target_scales(const SampleSetInfo& info) {
    const auto targets = static_cast<std::size_t>(info.targets);
    if (info.target_mean.size() != targets || info.target_std.size() != targets) {
        fail<ShapeError>(
            {.where = "standardised targets",
             .what = "target_mean and target_std do not fit the samples",
             .expected = fmt::format("{} of each", targets),
             .got = fmt::format("{} and {}", info.target_mean.size(), info.target_std.size())});
    }
    for (std::size_t i = 0; i < targets; ++i) {
        if (!std::isfinite(info.target_mean[i]) || !std::isfinite(info.target_std[i]) ||
            !(info.target_std[i] > 0)) {
            fail<ShapeError>(
                {.where = "standardised targets",
                 .what = fmt::format("unusable statistics of target {}", i),
                 .expected = "finite numbers, std > 0",
                 .got = fmt::format("mean {}, std {}", info.target_mean[i], info.target_std[i])});
        }
    }
}

}  // namespace

SampleTransform::SampleTransform(const SampleSetInfo& info, const AugmentOptions& options)
    : type_(info.type), options_(options), mean_(info.mean) {
    const std::size_t rank = info.sample_shape.size();
    if ((rank != 1 && rank != 3) || info.sample_elements() < 1) {
        fail<ShapeError>({.where = "samples",
                          .what = "a shape that is not an image or a vector",
                          .expected = "[C,H,W] or [F]",
                          .got = fmt::format("{} extents", rank)});
    }
    check_statistics(info, info.sample_shape[0]);
    if (rank == 3) {
        channels_ = info.sample_shape[0];
        height_ = info.sample_shape[1];
        width_ = info.sample_shape[2];
    } else if (mean_.size() == 1) {
        width_ = info.sample_shape[0];
    } else {
        channels_ = info.sample_shape[0];
    }
    for (const float std : info.std) {
        inverse_.push_back(1.0F / std);
    }
    const std::int64_t largest =
        rank == 3 ? std::min({height_, width_, std::int64_t{INT16_MAX}}) : 0;
    if (options.pad < 0 || options.pad > largest || (options.flip && rank != 3)) {
        fail<UsageError>({.where = "augmentation",
                          .what = "not possible with these samples",
                          .expected = rank == 3 ? fmt::format("pad within 0..{}", largest)
                                                : "no pad and no flip for samples of shape [F]",
                          .got = fmt::format("pad {}, flip {}", options.pad, options.flip)});
    }
}

ImageCrop SampleTransform::crop_of(std::int64_t sample_id, std::uint32_t epoch) const {
    if (options_.pad == 0 && !options_.flip) {
        return {};
    }
    const Rng rng(options_.seed, RngPurpose::kAugment, static_cast<std::uint64_t>(sample_id),
                  epoch);
    const auto words = rng.block(0);
    const auto places = static_cast<std::uint64_t>(options_.pad) * 2 + 1;
    const auto shift = [&](std::uint32_t word) {
        const std::uint64_t place = (std::uint64_t{word} * places) >> 32;
        return static_cast<std::int16_t>(static_cast<std::int64_t>(place) - options_.pad);
    };
    return {.down = shift(words[0]),
            .right = shift(words[1]),
            .mirrored = static_cast<std::int16_t>(options_.flip ? words[2] >> 31 : 0)};
}

std::vector<float> SampleTransform::scales() const {
    std::vector<float> scales = mean_;
    scales.insert(scales.end(), inverse_.begin(), inverse_.end());
    return scales;
}

template <class Stored>
void SampleTransform::apply_typed(const Stored* raw, std::int64_t sample_id, std::uint32_t epoch,
                                  float* out) const {
    if (options_.pad > 0 || options_.flip) {
        const ImageCrop crop = crop_of(sample_id, epoch);
        detail::crop({.channels = channels_,
                      .height = height_,
                      .width = width_,
                      .down = crop.down,
                      .right = crop.right,
                      .flip = crop.mirrored != 0,
                      .mean = mean_.data(),
                      .inverse = inverse_.data()},
                     raw, out);
        return;
    }
    const std::int64_t plane = height_ * width_;
    for (std::int64_t channel = 0; channel < channels_; ++channel) {
        const auto index = static_cast<std::size_t>(channel);
        detail::normalise(raw + channel * plane, plane, mean_[index], inverse_[index],
                          out + channel * plane);
    }
}

void SampleTransform::apply(const std::byte* raw, std::int64_t sample_id, std::uint32_t epoch,
                            float* out) const {
    if (type_ == SampleType::kU8) {
        apply_typed(reinterpret_cast<const std::uint8_t*>(raw), sample_id, epoch, out);
    } else {
        apply_typed(reinterpret_cast<const float*>(raw), sample_id, epoch, out);
    }
}

std::optional<SampleTransform> make_transform(const SampleSetInfo& info,
                                              const AugmentOptions& options) {
    check_target_scales(info);
    if (!info.tokens()) {
        return SampleTransform(info, options);
    }
    if (options.pad > 0 || options.flip) {
        fail<UsageError>({.where = "augmentation",
                          .what = "not possible with tokens",
                          .expected = "none for text",
                          .got = fmt::format("pad {}, flip {}", options.pad, options.flip)});
    }
    return std::nullopt;
}

}  // namespace cohort
