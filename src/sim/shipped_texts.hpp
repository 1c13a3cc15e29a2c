#pragma once

#include <span>
#include <string_view>

namespace cohort {

/// A file of data/, as it was when the program was built.
struct ShippedText {
    std::string_view name;  ///< of the file, without its ending
    std::string_view text;
};
/// Of data/profiles.
[[nodiscard]] std::span<const ShippedText> shipped_profile_texts();
/// Of data/recordings.
[[nodiscard]] std::span<const ShippedText> shipped_recording_texts();

}  // namespace cohort
