#pragma once

#include <cstdint>

namespace cohort {

/// Which part of an image is shown: output row y shows source row y + down, output column x shows
/// source column x + right, of a mirrored one column width - 1 - x in x's place. Outside the image
/// there is 0 after normalisation.
struct ImageCrop {
    std::int16_t down = 0;
    std::int16_t right = 0;
    std::int16_t mirrored = 0;  ///< 0 or 1
};

/// Samples of one byte per value as a set stores them, and what makes a network's input of them on
/// a device: the crop, then (x - mean) / std. The memory belongs to the caller.
struct StoredSamples {
    const std::uint8_t* values = nullptr;  ///< [N, C,H,W] or [N, F]
    const ImageCrop* crops = nullptr;      ///< [N]; of [F] not looked at
    const float* scales = nullptr;         ///< mean [channels], then 1 / std [channels]
    std::int64_t channels = 0;             ///< C; of [F]: 1 or F
    std::int64_t elements = 0;             ///< of a sample
};

}  // namespace cohort
