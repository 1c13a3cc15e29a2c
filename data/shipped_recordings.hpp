#pragma once

#include <span>

#include "cohort/data/shipped_text.hpp"

namespace cohort {

/// Of data/recordings.
[[nodiscard]] std::span<const ShippedText> shipped_recording_texts();

}  // namespace cohort
