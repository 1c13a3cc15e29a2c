#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/data/augment.hpp"
#include "data/text/csv_text.hpp"

namespace cohort {

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
            options.pad = 4;  // pixels
        } else if (const auto pixels =
                       parsed<int>(part.substr(std::min<std::size_t>(9, part.size())));
                   part.starts_with("pad-crop:") && pixels.value_or(0) >= 1) {
            options.pad = *pixels;
        } else {
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
