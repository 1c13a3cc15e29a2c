#pragma once

#include <span>

#include "data/shipped/shipped_text.hpp"

namespace cohort {

/// Of data/recordings.
[[nodiscard]] std::span<const ShippedText> shipped_recording_texts();

}  // namespace cohort
