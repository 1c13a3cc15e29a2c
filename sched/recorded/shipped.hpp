#pragma once

#include "data/shipped/shipped_file.hpp"

namespace cohort {

/// Of data/profiles.
[[nodiscard]] std::span<const ShippedFile> shipped_profile_files();
/// Of data/choosers and data/predictors: one file each.
[[nodiscard]] std::span<const ShippedFile> shipped_choosers();
[[nodiscard]] std::span<const ShippedFile> shipped_predictors();

}  // namespace cohort
