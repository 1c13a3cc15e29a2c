#include "report/page/fleet_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "cohort/core/version.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/page.hpp"
#include "report/page/page_data.hpp"
#include "report/page/svg.hpp"
#include "report/sweep/csv_value.hpp"

namespace cohort {
namespace {

/// Keys that every fleet of the page has with the same value; the rest tells fleets apart.
std::vector<std::pair<std::string, std::string>> shared_settings(const FleetResults& fleets) {
    auto shared = fleets.results.front().settings;
    std::erase_if(shared, [&fleets](const auto& setting) {
        return !std::ranges::all_of(fleets.results, [&setting](const FleetResult& result) {
            return std::ranges::find(result.settings, setting) != result.settings.end();
        });
    });
    return shared;
}

std::string notes(const std::vector<FleetGroup>& groups) {
    std::string text =
        "<p>Times are of the virtual cluster's clock, from a job's arrival on. A job that missed "
        "its target counts with its completion time, which is less than it would have needed.";
    if (groups.size() > 1) {
        const bool one = groups.front().results.size() == 1;
        text += fmt::format(
            " A ratio is the mean over the first label's mean, of the jobs of the same seed and "
            "name that ended under both; its 95 % interval comes from drawing {}.",
            one ? "jobs, as if they did not depend on each other: a second seed tells more"
                : "whole seeds, and is too narrow for a few");
    }
    return text + "</p>\n";
}

std::string pictures_of_times(const std::vector<FleetGroup>& groups) {
    const std::string ratios = draw_fleet_ratios(groups);
    const std::string times = draw_fleet_times(groups);
    std::vector<std::pair<std::string, std::string>> labels;
    for (std::size_t i = 0; i < groups.size(); ++i) {
        labels.emplace_back(mode_class(i), groups[i].label);
    }
    return line_legend(labels) + "<div class=\"grid-of\">\n" +
           (ratios.empty() ? ""
                           : figure(ratios,
                                    "Wide bars: mean, with its 95 % interval; thin bars: "
                                    "95th percentile. Shorter is faster.")) +
           (times.empty() ? ""
                          : figure(times,
                                   "Further left is faster; a curve that ends below 100 % "
                                   "has jobs that never got there.")) +
           "</div>\n";
}

/// A box for each label; the first is open.
std::string jobs_and_nodes(const std::vector<FleetGroup>& groups) {
    std::set<std::string> names;
    for (const FleetGroup& group : groups) {
        for (const FleetJobResult& job : group.all.jobs) {
            names.insert(job.workload);
        }
    }
    const std::vector<std::string> workloads(names.begin(), names.end());
    std::string text =
        "<section><h2>Jobs on the nodes</h2>\n<p>A row per device, coloured by the workload of the "
        "job that holds it; hover over a job for its name. Below: what of the nodes is in "
        "use, mean over the nodes as a line, least to most as a band.</p>\n" +
        workload_legend(workloads);
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const FleetResult& first = *groups[i].results.front();
        text += fmt::format(
            "<details{}><summary>{}, seed {}</summary>\n<div class=\"wide\">{}</div></details>\n",
            i == 0 ? " open=\"open\"" : "", escaped(groups[i].label), first.seed,
            draw_fleet_lanes(first, fmt::format("lanes{}", i), workloads));
    }
    return text + "</section>\n";
}

std::string what_was_run(const FleetResults& fleets) {
    const auto shared = shared_settings(fleets);
    std::string text =
        "<section><h2>What was run</h2>\n<p>Every job's numbers are in " +
        std::string(kFleetJobsFile) + " beside this page." +
        (fleets.results.size() > 1 ? " Settings named here differ between the fleets." : "") +
        "</p>\n<ul class=\"commands\">\n";
    for (std::size_t i = 0; i < fleets.results.size(); ++i) {
        const FleetResult& result = fleets.results[i];
        std::string own;
        for (const auto& setting : result.settings) {
            if (std::ranges::find(shared, setting) == shared.end()) {
                own += fmt::format(" <code>{}={}</code>", escaped(setting.first),
                                   escaped(setting.second));
            }
        }
        text += fmt::format(
            "<li><b>{}</b>, seed {}:{} <code>cohort fleet {}</code>, in <code>{}</code>, digest "
            "{:016x}{}</li>\n",
            escaped(result.label), result.seed, own, escaped(result.file),
            escaped(fleets.files.at(i)), result.digest,
            result.stopped ? ", stopped before its end" : "");
    }
    text += "</ul>\n<details><summary>Settings that all fleets share</summary><p><code>";
    for (const auto& [name, value] : shared) {
        text += fmt::format("{}={} ", escaped(name), escaped(value));
    }
    return text + fmt::format(
                      "</code></p></details>\n<p class=\"note\">Page by cohort {}, "
                      "revision {}.</p></section>\n",
                      version(), revision());
}

using JobValue = std::variant<std::string, double, std::int64_t>;

/// The columns of the jobs' file with the values of a job.
std::vector<std::pair<const char*, JobValue>> job_columns(const FleetJobResult& job) {
    const auto known = [](const std::optional<double>& value) {
        return value.value_or(std::numeric_limits<double>::quiet_NaN());
    };
    return {{"job", job.name},
            {"workload", job.workload},
            {"model", job.model},
            {"arch", job.arch},
            {"mode", job.mode},
            {"workers", std::int64_t{job.workers}},
            {"servers", std::int64_t{job.servers}},
            {"state", std::string(word_of(job.state))},
            {"arrival_s", job.arrival_s},
            {"start_s", known(job.start_s)},
            {"end_s", known(job.end_s)},
            {"target_s", known(job.target_s)},
            {"tta_s", known(job.tta_s())},
            {"completion_s", known(job.completion_s())},
            {"missed", std::int64_t{job.ended() && job.missed()}},
            {"accuracy", job.accuracy},
            {"samples", job.samples},
            {"switches", job.switches},
            {"busy_s", job.busy_s},
            {"wait_s", job.wait_s},
            {"slowdown", known(job.slowdown())},
            {"grants", known(job.grants)},
            {"room_taken_s", known(job.room_taken_s)},
            {"room_given_s", known(job.room_given_s)},
            {"worker_nodes", fmt::format("{}", fmt::join(job.worker_nodes, " "))},
            {"server_nodes", fmt::format("{}", fmt::join(job.server_nodes, " "))},
            {"error", job.error}};
}

}  // namespace

std::string fleet_jobs_csv(const FleetResults& fleets) {
    std::string text = kFleetJobsStart;
    for (const auto& [name, none] : job_columns({})) {
        text += fmt::format(",{}", name);
    }
    text += '\n';
    for (const FleetResult& result : fleets.results) {
        for (const FleetJobResult& job : result.jobs) {
            text += fmt::format("{},{}", CsvText()(result.label), result.seed);
            for (const auto& [name, value] : job_columns(job)) {
                text += "," + std::visit(CsvText(), value);
            }
            text += '\n';
        }
    }
    return text;
}

std::string report_html(const FleetResults& fleets) {
    const std::vector<FleetGroup> groups = group_fleets(fleets.results);
    const std::vector<std::string> verdicts = fleet_verdicts(groups);
    std::string body = "<h1 class=\"sentence\">" + escaped(verdicts.front()) + "</h1>\n";
    for (std::size_t i = 1; i < verdicts.size(); ++i) {
        body += "<p class=\"verdict\">" + escaped(verdicts[i]) + "</p>\n";
    }
    body += notes(groups) + pictures_of_times(groups) + table_html(fleet_table(groups));
    if (const ReportTable room = fleet_room_table(groups); !room.rows.empty()) {
        body += table_html(room);
    }
    return html_page("Jobs on one cluster", body + jobs_and_nodes(groups) + what_was_run(fleets));
}

std::string report_markdown(const FleetResults& fleets) {
    const std::vector<FleetGroup> groups = group_fleets(fleets.results);
    std::string text;
    for (const std::string& sentence : fleet_verdicts(groups)) {
        text += sentence + "\n\n";
    }
    text += table_markdown(fleet_table(groups));
    const ReportTable room = fleet_room_table(groups);
    return room.rows.empty() ? text : text + table_markdown(room);
}

}  // namespace cohort
