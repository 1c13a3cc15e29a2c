#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "cohort/sched/chooser.hpp"
#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/report_tables.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

/// A table in a box that scrolls by itself. @param name  for screen readers @param columns  besides
/// the first @param rows  in HTML @param first  head of the first column @param words  which
/// columns are of sentences; empty: none
std::string in_box(const std::string& name, const std::string& caption,
                   const std::vector<std::string>& columns, const std::string& rows,
                   const std::string& first = "mode", const std::vector<bool>& words = {}) {
    std::string head;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        head += fmt::format("<th scope=\"col\"{}>{}</th>",
                            i < words.size() && words[i] ? " class=\"words\"" : "",
                            escaped(columns[i]));
    }
    return fmt::format(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">"
        "<table><caption><span>{}</span></caption>"
        "<thead><tr><th scope=\"col\">{}</th>{}</tr></thead>\n"
        "<tbody>{}</tbody></table></div>\n",
        escaped(name), escaped(caption), escaped(first), head, rows);
}

std::string mode_head(const std::string& name, const std::string& note) {
    return fmt::format(
        "<th scope=\"row\">{}{}</th>", escaped(name),
        note.empty() ? "" : fmt::format(" <span class=\"role\">{}</span>", escaped(note)));
}

std::string cell_html(const CellText& text) {
    const std::string mark =
        text.best ? "<abbr class=\"mark\" title=\"best of the column\">★</abbr> " : "";
    std::string html = fmt::format("<td class=\"{}{}{}\">{}<span class=\"median\">{}</span>",
                                   text.best ? "best" : "", text.never ? "never" : "",
                                   text.words ? " words" : "", mark, escaped(text.main));
    for (const std::string& line : text.below) {
        html += fmt::format("<span class=\"spread\">{}</span>", escaped(line));
    }
    return html + "</td>";
}

/// A column of demands.
struct Demand {
    const char* name;
    double RunRow::*number;
    double unit;    ///< numbers are divided by it
    bool compared;  ///< also shown relative to the reference mode
};

constexpr double kMega = 1e6;
constexpr double kPercent = 0.01;
constexpr auto kDemands = std::to_array<Demand>({
    {"worker: CPU, core s/s", &RunRow::worker_cpu, 1, true},
    {"worker: network, MB/s", &RunRow::worker_bytes, kMega, true},
    {"worker: waiting, %", &RunRow::worker_wait, kPercent, false},
    {"server: CPU, core s/s", &RunRow::server_cpu, 1, true},
    {"server: in, MB/s", &RunRow::server_rx_bytes, kMega, true},
    {"server: out, MB/s", &RunRow::server_tx_bytes, kMega, true},
    {"server: busy, %", &RunRow::server_busy, kPercent, false},
    {"lag, reference batches", &RunRow::lag_mean, 1, false},
});

std::string demand_cell(const ComparedCell& cell, const ComparedCell& reference,
                        const Demand& demand) {
    if (cell.rows.empty()) {
        return "<td>no run yet</td>";
    }
    const double number = median_of(cell, demand.number);
    CellText text;
    text.main = short_number(number / demand.unit);
    const double other = reference.rows.empty() ? 0 : median_of(reference, demand.number);
    if (demand.compared && &cell != &reference && other > 0 && number > 0) {
        text.below.push_back(change_text(std::log(number / other)));
    }
    return cell_html(text);
}

}  // namespace

std::string table_html(const ReportTable& table) {
    std::string rows;
    for (const ReportTable::Row& row : table.rows) {
        rows += (row.note == "hindsight" ? "<tr class=\"oracle\">" : "<tr>") +
                mode_head(row.name, row.note);
        for (const CellText& cell : row.cells) {
            rows += cell_html(cell);
        }
        rows += "</tr>\n";
    }
    std::vector<bool> words;
    if (!table.rows.empty()) {
        std::ranges::transform(table.rows.front().cells, std::back_inserter(words),
                               &CellText::words);
    }
    return in_box(table.title, table.title + ": " + table.caption, table.columns, rows,
                  table.rows_are, words);
}

std::string result_tables(const PageData& data) {
    std::string text;
    for (const ReportTable& table : report_tables(data.results, data.comparison)) {
        text += table_html(table);
    }
    return text;
}

std::string demand_table(const PageData& data, std::size_t pattern) {
    std::vector<std::string> columns;
    std::ranges::transform(kDemands, std::back_inserter(columns), &Demand::name);
    const auto& cells = data.comparison.cells;
    std::string rows;
    for (std::size_t mode = 0; mode < cells.size(); ++mode) {
        rows += "<tr>" + mode_head(data.results.modes[mode].name,
                                   data.results.modes[mode].role == "ours" ? "ours" : "");
        for (const Demand& demand : kDemands) {
            rows += demand_cell(cells[mode][pattern], cells[data.comparison.reference][pattern],
                                demand);
        }
        rows += "</tr>\n";
    }
    return in_box("Demands under " + data.results.patterns[pattern],
                  fmt::format("Under {}: of each worker and each server on average, per second of "
                              "virtual time; median of the seeds; below it relative to {}",
                              data.results.patterns[pattern],
                              data.results.modes[data.comparison.reference].name),
                  columns, rows);
}

ReportTable decisions_table(const std::string& of, std::span<const DecisionRecord> decisions) {
    constexpr std::size_t kMost = 60;
    ReportTable table{
        .title = "Decisions of " + of,
        .caption = fmt::format(
            "{}{}", decisions.size(),
            decisions.size() > kMost ? fmt::format(", of which the first {}", kMost) : ""),
        .columns = {"at, s", "why", "samples/s predicted", "measured", "for, s", "next best, rate"},
        .rows_are = "plan"};
    const auto plain = [](std::string text, bool words = false) {
        return CellText{.main = std::move(text), .never = true, .words = words};
    };
    for (const DecisionRecord& one : decisions.first(std::min(decisions.size(), kMost))) {
        const Candidate* const chosen = chosen_candidate(one);
        ReportTable::Row& row = table.rows.emplace_back();
        row.name = one.to;
        row.cells = {plain(fmt::format("{:.4g}", one.seconds)),
                     plain(one.reason, true),
                     plain(chosen == nullptr ? "" : short_number(chosen->samples_s)),
                     plain(short_number(one.measured_samples_s)),
                     plain(short_number(one.held_s)),
                     plain(runner_up_of(one), true)};
    }
    return table;
}

std::string tuning_table(const PageData& data) {
    std::string rows;
    for (const TuningRow& row : data.results.tuning) {
        const std::string tta =
            row.tta_virtual_s ? seconds_text(*row.tta_virtual_s) : "not reached";
        rows += fmt::format(
            "<tr{}><th scope=\"row\">{}</th><td>{}{}</td><td>{}</td><td>{}</td>"
            "<td>{}</td></tr>\n",
            row.chosen ? " class=\"best\"" : "", escaped(row.mode),
            row.chosen ? "<abbr class=\"mark\" title=\"chosen\">★</abbr> " : "", row.lr,
            row.seed.seed, tta, percent(row.accuracy));
    }
    return in_box(
        "Learning rates",
        "Every mode's rate is chosen by the same search: smallest median time to the target, then "
        "best test result at the end",
        {"learning rate", "seed", "time to the target, virtual s",
         quality_name(data.results) + " at the end"},
        rows);
}

std::string command_lists(const PageData& data) {
    std::string text;
    for (const ExperimentMode& mode : data.results.modes) {
        text += fmt::format("<details><summary>{}{}</summary><ul class=\"commands\">\n",
                            escaped(mode.name),
                            mode.cites.empty() ? "" : ": after " + escaped(mode.cites));
        for (const RunRow& row : data.results.rows) {
            if (row.mode == mode.name) {
                text += fmt::format("<li>{}, seed {}: <code>{}</code></li>\n", escaped(row.pattern),
                                    row.seed.seed, escaped(row.command));
            }
        }
        text += "</ul></details>\n";
    }
    return text;
}

std::string line_legend(const std::vector<std::pair<std::string, std::string>>& lines) {
    std::string text = "<ul class=\"legend\">";
    for (const auto& [kind, name] : lines) {
        text += fmt::format(
            "<li><svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">"
            "<g class=\"{}\"><polyline points=\"0,5 28,5\"/></g></svg>{}</li>",
            kind, escaped(name));
    }
    return text + "</ul>\n";
}

std::string mode_legend(const PageData& data) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (std::size_t mode = 0; mode < data.results.modes.size(); ++mode) {
        const ExperimentMode& entry = data.results.modes[mode];
        lines.emplace_back(mode_class(mode) + (entry.role == "ours" ? " ours" : ""), entry.name);
    }
    return line_legend(lines);
}

}  // namespace cohort
