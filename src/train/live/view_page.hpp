#pragma once

#include <ctime>
#include <span>
#include <string>

#include "data/shipped/shipped_file.hpp"
#include "train/live/run_view.hpp"

namespace cohort {

/// The view of a run as an HTML page without external resources, light and dark, for screens from
/// 320 pixels on. While the run is not over the page asks the browser to load it again.
/// @param every_s  seconds between two pages  @param written  time of this one
[[nodiscard]] std::string view_page(const RunView& view, double every_s, std::time_t written);

/// Its style sheet.
[[nodiscard]] std::span<const ShippedFile> live_styles();

}  // namespace cohort
