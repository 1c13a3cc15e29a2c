#pragma once

#include <span>
#include <string_view>

namespace cohort {

/// A file of data/profiles, as it was when the program was built.
struct ShippedProfile {
    std::string_view name;  ///< of the file, without its ending
    std::string_view text;
};
[[nodiscard]] std::span<const ShippedProfile> shipped_profile_texts();

}  // namespace cohort
