#pragma once

#include <string>

#include "cohort/report/sweep_results.hpp"

namespace cohort {

/// Begin of every page.
inline constexpr const char* kPageStart = "<!DOCTYPE html>\n<!-- a page of cohort report -->\n";

/// One HTML page with tables and pictures of a sweep, without scripts or external resources. Reads
/// the results of all runs (their files are in the rows). Errors: FileError.
[[nodiscard]] std::string report_html(const SweepResults& results);

/// The tables alone, as Markdown, with a command for every mode (results.csv has every run's).
[[nodiscard]] std::string report_markdown(const SweepResults& results);

}  // namespace cohort
