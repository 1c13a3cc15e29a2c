// Pixels of images with more channels than a sample has.
#include "data/import/image_codec.hpp"

#include <algorithm>

namespace cohort {

namespace {

/// a b / 255, rounded.
constexpr unsigned product(unsigned a, unsigned b) {
    return (2 * a * b + 255) / 510;
}

}  // namespace

std::vector<std::uint8_t> over_white(std::span<const std::uint8_t> pixels, std::size_t channels) {
    std::vector<std::uint8_t> mixed;
    mixed.reserve(pixels.size() / (channels + 1) * channels);
    for (std::size_t at = 0; at + channels < pixels.size(); at += channels + 1) {
        const unsigned opaque = pixels[at + channels];
        for (std::size_t k = 0; k < channels; ++k) {
            // White minus what the pixel takes away from it.
            mixed.push_back(
                static_cast<std::uint8_t>(255U - product(255U - pixels[at + k], opaque)));
        }
    }
    return mixed;
}

std::vector<std::uint8_t> ink_to_rgb(std::span<const std::uint8_t> ink) {
    std::vector<std::uint8_t> colours;
    colours.reserve(ink.size() / 4 * 3);
    for (std::size_t at = 0; at + 3 < ink.size(); at += 4) {
        for (std::size_t k = 0; k < 3; ++k) {
            const unsigned free_of_black = ink[at + 3];
            colours.push_back(static_cast<std::uint8_t>(
                free_of_black - product(255U - ink[at + k], free_of_black)));
        }
    }
    return colours;
}

Image in_colour(Image image) {
    if (image.channels == 3) {
        return image;
    }
    std::vector<std::uint8_t> colours;
    colours.reserve(3 * image.pixels.size());
    for (const std::uint8_t grey : image.pixels) {
        colours.insert(colours.end(), 3, grey);
    }
    image.channels = 3;
    image.pixels = std::move(colours);
    return image;
}

bool exif_turned(std::span<const std::uint8_t> exif) {
    constexpr unsigned kOrientation = 0x0112;
    constexpr std::size_t kEntryBytes = 12;
    const bool little = exif.size() >= 2 && exif[0] == 'I';
    const auto number = [&](std::size_t at, std::size_t bytes) {
        std::size_t value = 0;
        for (std::size_t i = 0; i < bytes && at + bytes <= exif.size(); ++i) {
            value = (value << 8U) | exif[at + (little ? bytes - 1 - i : i)];
        }
        return value;
    };
    if (exif.size() < 8 || number(2, 2) != 42) {
        return false;
    }
    const std::size_t folder = number(4, 4);
    if (folder + 2 > exif.size()) {
        return false;
    }
    const std::size_t entries = number(folder, 2);
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t at = folder + 2 + i * kEntryBytes;
        if (at + kEntryBytes > exif.size()) {
            return false;
        }
        if (number(at, 2) == kOrientation) {
            const std::size_t orientation = number(at + 8, 2);
            return orientation >= 2 && orientation <= 8;
        }
    }
    return false;
}

}  // namespace cohort
