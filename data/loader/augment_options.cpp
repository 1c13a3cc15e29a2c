#include <charconv>
#include <set>
#include <sstream>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/data/augment.hpp"

namespace cohort {
namespace {

constexpr int kDefaultCropPixels = 4;

/// A whole number >= 1.
bool parse_pixels(const std::string& text, int& pixels) {
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, pixels);
    return error == std::errc() && end == last && pixels >= 1;
}

}  // namespace

AugmentOptions parse_augment(std::string_view text, std::uint64_t seed) {
    AugmentOptions options{.seed = seed};
    if (text == "none") {
        return options;
    }
    std::istringstream parts{std::string(text)};
    std::set<std::string> kinds;
    for (std::string part; std::getline(parts, part, ',');) {
        if (!kinds.insert(part.substr(0, part.find(':'))).second) {
            fail<UsageError>({.where = "--augment",
                              .what = "names an augmentation twice",
                              .got = std::string(text)});
        }
        if (part == "flip") {
            options.flip = true;
        } else if (part == "pad-crop") {
            options.pad = kDefaultCropPixels;
        } else if (!part.starts_with("pad-crop:") || !parse_pixels(part.substr(9), options.pad)) {
            fail<UsageError>({.where = "--augment",
                              .what = "cannot be understood",
                              .expected = "none, or a list of pad-crop:PIXELS and flip",
                              .got = std::string(text),
                              .hint = "--augment pad-crop:4,flip"});
        }
    }
    return options;
}

}  // namespace cohort
