#pragma once

#include <span>

#include "data/shipped/shipped_text.hpp"

namespace cohort {

/// Of data/profiles.
[[nodiscard]] std::span<const ShippedText> shipped_profile_texts();

}  // namespace cohort
