#include "report/run/run_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cohort/core/version.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/report_tables.hpp"
#include "report/page/svg.hpp"
#include "report/run/run_tables.hpp"
#include "report/sweep/csv_value.hpp"

namespace cohort {
namespace {

// Widths of the lanes' two pictures, of which the style sheet shows the one that fits the screen.
constexpr double kWideLanes = 900;
constexpr double kNarrowLanes = 380;

std::string lanes_part(const std::vector<RunHistory>& runs) {
    const std::string pictures = "<div class=\"on-wide\">" +
                                 draw_run_lanes(runs, "lanes", kWideLanes) +
                                 "</div>\n<div class=\"on-narrow\">" +
                                 draw_run_lanes(runs, "lanes-narrow", kNarrowLanes) + "</div>\n";
    const std::string causes = cause_legend(pictures);
    return pictures + run_lane_legend(pictures) +
           (causes.empty() ? ""
                           : "<p class=\"note\">A line above a lane: the worker was slow for long, "
                             "for this cause.</p>\n") +
           causes;
}

/// What the numbers cannot tell, of runs that lack something.
std::string run_notes(const std::vector<RunHistory>& runs) {
    std::string text;
    const auto add = [&text](const RunHistory& run, const std::string& what) {
        text += fmt::format("<p class=\"note\">{}: {}</p>\n", escaped(run.label), escaped(what));
    };
    for (const RunHistory& run : runs) {
        if (run.first().deterministic) {
            add(run,
                "no times of workers were recorded (--deterministic), so its lanes are empty.");
        }
        if (run.torn) {
            add(run, "the last line of " + run.file + " is incomplete and was left out.");
        }
        if (!run.summary && !run.failure) {
            add(run, "it has no summary: the job still runs, or was killed.");
        }
    }
    return text;
}

std::string section(const std::string& title, const std::string& content) {
    return content.empty() ? "" : "<section><h2>" + title + "</h2>\n" + content + "</section>\n";
}

std::string table_part(const ReportTable& table) {
    return table.rows.empty() ? "" : table_html(table);
}

std::string slow_section(const std::vector<RunHistory>& runs) {
    std::int64_t brief = 0;
    for (const RunHistory& run : runs) {
        brief += run.summary ? run.summary->stragglers_brief : 0;
    }
    std::string text = table_part(slow_table(runs));
    text += text.empty() ? "<p>Nobody was slow for long.</p>\n" : "";
    if (brief > 0) {
        text += fmt::format("<p class=\"note\">Besides, {} of slowness too short for a row.</p>\n",
                            counted(static_cast<std::size_t>(brief), "episode"));
    }
    return text;
}

std::string decisions_part(const std::vector<RunHistory>& runs) {
    std::string text;
    for (const RunHistory& run : runs) {
        const ReportTable table = decisions_table(run.label, run.decisions);
        if (!table.rows.empty()) {
            text += "<details><summary>Decisions of " + escaped(run.label) + "</summary>\n" +
                    table_html(table) + "</details>\n";
        }
    }
    return text;
}

std::string changes_section(const std::vector<RunHistory>& runs) {
    return section("Which mode, and why", table_part(changes_table(runs)) + decisions_part(runs));
}

/// Revision, machine and command of a run, and all that its first line says.
std::string origin_of(const RunHistory& run) {
    const RunHeader& first = run.first();
    std::string text = fmt::format(
        "<li><b>{}</b>: cohort {}, revision {}; {} on {}{}; in <code>{}</code>", escaped(run.label),
        escaped(first.version), escaped(first.revision), escaped(first.model),
        escaped(first.device),
        first.hosts.empty()
            ? ""
            : fmt::format("; hosts {}", escaped(fmt::format("{}", fmt::join(first.hosts, ", ")))),
        escaped(run.file));
    std::set<std::string> commands;
    for (const RunPart& part : run.parts) {
        if (!part.header.command.empty() && commands.insert(part.header.command).second) {
            text += fmt::format("<br/><code>{}</code>", escaped(part.header.command));
        }
    }
    text += "<details><summary>All that was set</summary><p><code>";
    for (const auto& [name, value] : first.fields) {
        text += value.empty() ? "" : fmt::format("{}={} ", escaped(name), escaped(value));
    }
    return text + "</code></p></details></li>\n";
}

std::string origin_section(const std::vector<RunHistory>& runs, const std::string& csv) {
    std::string text = "<ul class=\"commands\">\n";
    for (const RunHistory& run : runs) {
        text += origin_of(run);
    }
    return section("What was run", text + fmt::format("</ul>\n<p class=\"note\">The numbers of "
                                                      "the pictures: <a href=\"{0}\">{0}</a>. Page "
                                                      "by cohort {1}, revision {2}.</p>\n",
                                                      escaped(csv), version(), revision()));
}

std::string title_of(const std::vector<RunHistory>& runs) {
    std::string title;
    for (const RunHistory& run : runs) {
        title += (title.empty() ? "" : ", ") + run.label;
    }
    return title;
}

double share(const WorkerColumn& worker, double WorkerColumn::*part) {
    return worker.seconds > 0 ? worker.*part / worker.seconds : kUnknown;
}

template <class... Values>
std::string csv_row(const Values&... values) {
    std::string row;
    ((row += (row.empty() ? "" : ",") + CsvText()(values)), ...);
    return row + "\n";
}

}  // namespace

std::string report_html(const std::vector<RunHistory>& runs, const std::string& csv) {
    return html_page(
        title_of(runs),
        "<h1 class=\"sentence\">" + escaped(run_verdict(runs)) + "</h1>\n" + lanes_part(runs) +
            run_notes(runs) + table_html(runs_table(runs, page_level(runs))) +
            section("Over time", run_curves(runs)) +
            section("Who was slow, and why", slow_section(runs)) + changes_section(runs) +
            section("What faults and safety cost", table_html(faults_table(runs))) +
            origin_section(runs, csv));
}

std::string report_markdown(const std::vector<RunHistory>& runs) {
    std::string text =
        run_verdict(runs) + "\n\n" + table_markdown(runs_table(runs, page_level(runs)));
    for (const ReportTable& table : {slow_table(runs), changes_table(runs), faults_table(runs)}) {
        text += table.rows.empty() ? "" : table_markdown(table);
    }
    return text;
}

std::string run_columns_csv(const std::vector<RunHistory>& runs) {
    const std::string none;
    std::string text = std::string(kRunColumnsStart) +
                       ",end_s,loss,loss_least,loss_most,quality,quality_least,quality_most,"
                       "samples_per_s,computing,input,transferring,waiting,lag_mean,lag_most\n";
    for (const RunHistory& run : runs) {
        const double width_s = run.columns.width_s();
        for (std::size_t i = 0; i < run.columns.all().size(); ++i) {
            const RunColumn& column = run.columns.all()[i];
            const double begin_s = static_cast<double>(i) * width_s;
            const double end_s = std::min(run.end_s, begin_s + width_s);
            const auto known = [](const TimeMean& mean, double value) {
                return mean.seconds > 0 ? value : kUnknown;
            };
            if (column.samples_per_s.seconds > 0) {
                text += csv_row(run.label, std::string("run"), none, begin_s, end_s,
                                column.loss.mean(), known(column.loss, column.loss.least),
                                known(column.loss, column.loss.most), column.quality.mean(),
                                known(column.quality, column.quality.least),
                                known(column.quality, column.quality.most),
                                column.samples_per_s.mean(), none, none, none, none, none, none);
            }
            for (std::size_t index = 0; index < column.workers.size(); ++index) {
                const WorkerColumn& worker = column.workers[index];
                if (worker.seconds > 0 || worker.lag.seconds > 0) {
                    text +=
                        csv_row(run.label, std::string("worker"), static_cast<std::int64_t>(index),
                                begin_s, end_s, none, none, none, none, none, none, none,
                                share(worker, &WorkerColumn::compute_s),
                                share(worker, &WorkerColumn::input_s),
                                share(worker, &WorkerColumn::transfer_s),
                                share(worker, &WorkerColumn::wait_s), worker.lag.mean(),
                                known(worker.lag, worker.lag.most));
                }
            }
        }
        for (const RunEvaluation& test : run.evaluations) {
            text += csv_row(run.label, std::string("test"), none, test.train_s, test.train_s,
                            test.loss, none, none, test_quality(test), none, none, none, none, none,
                            none, none, none, none);
        }
    }
    return text;
}

}  // namespace cohort
