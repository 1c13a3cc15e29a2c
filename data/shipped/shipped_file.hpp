#pragma once

#include <span>
#include <string_view>

namespace cohort {

/// A file of data/, as it was when the program was built.
struct ShippedFile {
    std::string_view name;  ///< without folder and ending
    std::string_view bytes;
};

/// Of data/recordings.
[[nodiscard]] std::span<const ShippedFile> shipped_recordings();

}  // namespace cohort
