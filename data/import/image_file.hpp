#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// What the header of an image file says.
struct ImageFacts {
    std::int64_t height = 0;
    std::int64_t width = 0;
    bool colour = false;  ///< else shades of grey
};

/// An image of bytes, [height, width, channels]: one channel of grey, or red, green and blue.
struct Image {
    std::int64_t channels = 1;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::vector<std::uint8_t> pixels;
};

/// .png, .jpg or .jpeg, in any case.
[[nodiscard]] bool named_image(const std::string& path);

/// A PNG or JPEG file, told apart by its first bytes. Errors: FileError naming the file, for one
/// that is damaged, cut off, or neither.
[[nodiscard]] ImageFacts image_facts(const std::string& path);
/// As `colour` or as grey; 16 bits become 8, transparent pixels white. Errors: those of
/// image_facts.
[[nodiscard]] Image read_image(const std::string& path, bool colour);

/// The image at another size, its sides stretched apart from each other. A pixel is the mean of
/// those that it covers, weighted by a triangle (bilinear where the image grows).
[[nodiscard]] Image resized(const Image& image, std::int64_t height, std::int64_t width);

/// [height, width, channels] to [channels, height, width].
[[nodiscard]] std::vector<std::uint8_t> channels_first(const Image& image);

}  // namespace cohort
