#pragma once

#include "data/import/image_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The formats behind image_file.hpp: one image in memory. `path` is for messages; errors are
// FileError.
namespace cohort {

[[nodiscard]] ImageFacts png_facts(const std::string& path, std::span<const std::uint8_t> bytes);
[[nodiscard]] Image read_png(const std::string& path, std::span<const std::uint8_t> bytes);

[[nodiscard]] ImageFacts jpeg_facts(const std::string& path, std::span<const std::uint8_t> bytes);
[[nodiscard]] Image read_jpeg(const std::string& path, std::span<const std::uint8_t> bytes);

/// Errors: FileError unless the size is one of an image that fits memory.
void check_image_size(const std::string& path, std::int64_t height, std::int64_t width);
[[noreturn]] void fail_damaged_image(const std::string& path, std::string_view reason);

/// Whether EXIF data, from their byte order on, give an orientation other than upright.
[[nodiscard]] bool exif_turned(std::span<const std::uint8_t> exif);

/// `pixels` [.., channels + 1], whose last channel is how opaque they are, over white: [..,
/// channels].
[[nodiscard]] std::vector<std::uint8_t> over_white(std::span<const std::uint8_t> pixels,
                                                   std::size_t channels);
/// [.., 4] of amounts of ink, inverted as Adobe's programs store them (255: none), to RGB [.., 3].
[[nodiscard]] std::vector<std::uint8_t> ink_to_rgb(std::span<const std::uint8_t> ink);

}  // namespace cohort
