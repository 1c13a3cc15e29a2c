#pragma once

#include <array>
#include <string>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "report/page/report_tables.hpp"

// The page of one or several fleets (cohort fleet): its numbers, sentences, tables and pictures.
namespace cohort {

/// All fleets of one label.
struct FleetGroup {
    std::string label;
    std::vector<const FleetResult*> results;  ///< one for each seed
    FleetResult all;       ///< jobs and use of all seeds, one after the other; makespan: their mean
    FleetSummary summary;  ///< of `all`
    FleetComparison to_first;
};

/// In the order in which labels come first. The results must outlive the groups. Errors: as
/// compare_fleets.
[[nodiscard]] std::vector<FleetGroup> group_fleets(const std::vector<FleetResult>& results);

/// One of the two times of jobs.
struct FleetTime {
    const char* name;
    Distribution FleetSummary::*values;
    Interval FleetComparison::*ratio;
};
inline constexpr std::array<FleetTime, 2> kFleetTimes{
    {{"time to accuracy", &FleetSummary::tta, &FleetComparison::tta},
     {"completion time", &FleetSummary::completion, &FleetComparison::completion}}};
/// Whether any job has a target; without one only the completion time counts.
[[nodiscard]] bool has_targets(const std::vector<FleetGroup>& groups);

/// Of one label: what its jobs took and what held them up. Of several: a sentence for each but the
/// first, which it is compared with.
[[nodiscard]] std::vector<std::string> fleet_verdicts(const std::vector<FleetGroup>& groups);
/// Times of jobs and use of the cluster, by label.
[[nodiscard]] ReportTable fleet_table(const std::vector<FleetGroup>& groups);
/// Jobs of first seeds that took and gave most room by grants; no rows: nobody did.
[[nodiscard]] ReportTable fleet_room_table(const std::vector<FleetGroup>& groups);
/// Logarithms, as change_text and apart_text take them.
[[nodiscard]] Interval log_ratio(const Interval& ratio);

// Pictures, as SVG.

/// Mean times relative to the first label's with their intervals, and 95th percentiles; empty for
/// one label.
[[nodiscard]] std::string draw_fleet_ratios(const std::vector<FleetGroup>& groups);
/// Share of jobs that reached their target (without targets: that ended) by the time since arrival.
[[nodiscard]] std::string draw_fleet_times(const std::vector<FleetGroup>& groups);
/// Jobs on the devices of all nodes over time; below them devices, processors and network cards in
/// use. @param id  unique in the page @param workloads  in the order of their colours
[[nodiscard]] std::string draw_fleet_lanes(const FleetResult& result, const std::string& id,
                                           const std::vector<std::string>& workloads);
/// Colours and names of the workloads.
[[nodiscard]] std::string workload_legend(const std::vector<std::string>& workloads);

}  // namespace cohort
