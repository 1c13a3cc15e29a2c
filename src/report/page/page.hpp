#pragma once

#include <string>
#include <vector>

#include "cohort/report/sweep_results.hpp"
#include "cohort/sim/fleet.hpp"

namespace cohort {

/// Begin of every page.
inline constexpr const char* kPageStart = "<!DOCTYPE html>\n<!-- a page of cohort report -->\n";

/// One HTML page with tables and pictures of a sweep, without scripts or external resources. Reads
/// the results of all runs (their files are in the rows). Errors: FileError.
[[nodiscard]] std::string report_html(const SweepResults& results);

/// The tables alone, as Markdown, with a command for every mode (results.csv has every run's).
[[nodiscard]] std::string report_markdown(const SweepResults& results);

/// Results of cohort fleet, at least one.
struct FleetResults {
    std::vector<std::string> files;
    std::vector<FleetResult> results;  ///< of each file
};
/// As for a sweep: a verdict, times by label, jobs on nodes. Errors: as compare_fleets.
[[nodiscard]] std::string report_html(const FleetResults& fleets);
[[nodiscard]] std::string report_markdown(const FleetResults& fleets);

/// Name and begin of the table of all jobs.
inline constexpr const char* kFleetJobsFile = "fleet-jobs.csv";
inline constexpr const char* kFleetJobsStart = "label,seed";
/// A line per job (RFC 4180); an empty field: no value.
[[nodiscard]] std::string fleet_jobs_csv(const FleetResults& fleets);

}  // namespace cohort
