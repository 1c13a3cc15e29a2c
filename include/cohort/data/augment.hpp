#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/core/stored_samples.hpp"
#include "cohort/data/sample_source.hpp"

namespace cohort {

struct AugmentOptions {
    int pad = 0;             ///< pixels around the image before a random crop to its size; 0: none
    bool flip = false;       ///< mirror left-right with probability 1/2
    std::uint64_t seed = 0;  ///< keys the draws, together with sample id and epoch
};

/// Parses `--augment`: "none", or a list of "pad-crop:PIXELS" (4 without a number) and "flip".
/// Errors: UsageError with the grammar.
[[nodiscard]] AugmentOptions parse_augment(std::string_view text, std::uint64_t seed);

/// Turns a stored sample of numbers into what the network sees: augmented, then (x - mean) / std
/// per channel, as float [C,H,W] or [F]. Padding is 0 after normalisation, that is the mean colour.
/// Random draws depend on (seed, sample id, epoch) alone. Immutable, so thread safe.
class SampleTransform {
public:
    /// Errors: ShapeError for a shape other than [C,H,W] or [F], mean and std not of one entry per
    /// channel ([F]: one entry, or F) or std not > 0; UsageError for augmentation of [F] samples or
    /// pad outside 0 .. the image's shorter side.
    SampleTransform(const SampleSetInfo& info, const AugmentOptions& options);

    /// The crop that apply() makes of an image with that id in that epoch.
    [[nodiscard]] ImageCrop crop_of(std::int64_t sample_id, std::uint32_t epoch) const;
    /// Mean of each channel, then 1 / std.
    [[nodiscard]] std::vector<float> scales() const;

    /// @param raw one stored sample, sample_bytes() bytes  @param out sample_elements() floats
    void apply(const std::byte* raw, std::int64_t sample_id, std::uint32_t epoch, float* out) const;

private:
    template <class Stored>
    void apply_typed(const Stored* raw, std::int64_t sample_id, std::uint32_t epoch,
                     float* out) const;

    SampleType type_;
    AugmentOptions options_;
    std::int64_t channels_ = 1;
    std::int64_t height_ = 1;
    std::int64_t width_ = 1;
    std::vector<float> mean_;     // per channel
    std::vector<float> inverse_;  // 1 / std per channel
};

/// The transform of a set's samples; none for tokens, which stay as they are. Errors: those of
/// SampleTransform; ShapeError for scales that do not fit the targets or are unusable; UsageError
/// for augmentation of tokens.
[[nodiscard]] std::optional<SampleTransform> make_transform(const SampleSetInfo& info,
                                                            const AugmentOptions& options);

}  // namespace cohort
