#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// What the header of an image file says.
struct ImageFacts {
    std::int64_t height = 0;
    std::int64_t width = 0;
    bool colour = false;  ///< else shades of grey
    bool turned = false;  ///< EXIF: to be shown turned or mirrored, which nothing here does
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
/// Whether the file begins as a PNG or JPEG file does, whatever its name. Errors: FileError.
[[nodiscard]] bool begins_as_image(const std::string& path);
/// The format of an image that cannot be read here, by the first bytes or by the name: "WebP";
/// empty: none. Errors: FileError.
[[nodiscard]] std::string_view other_image_format(const std::string& path);

/// A PNG or JPEG file, told apart by its first bytes. Errors: FileError naming the file, for one
/// that is damaged, cut off, or neither.
[[nodiscard]] ImageFacts image_facts(const std::string& path);
/// Pixels as stored, whatever gamma or profile the file names; 16 bits become 8, transparent pixels
/// are mixed with white, CMYK becomes RGB. Errors: those of image_facts.
[[nodiscard]] Image read_image(const std::string& path);

/// With three channels; grey is repeated.
[[nodiscard]] Image in_colour(Image image);
/// The image at another size, its sides stretched apart from each other. A pixel is the mean of
/// those that it covers, weighted by a triangle (bilinear where the image grows).
[[nodiscard]] Image resized(const Image& image, std::int64_t height, std::int64_t width);

/// [height, width, channels] to [channels, height, width].
[[nodiscard]] std::vector<std::uint8_t> channels_first(const Image& image);

}  // namespace cohort
