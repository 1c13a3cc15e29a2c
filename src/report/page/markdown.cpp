#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "report/page/page.hpp"
#include "report/page/report_tables.hpp"

namespace cohort {
namespace {

std::string line_of(const std::vector<std::string>& cells) {
    std::string line = "|";
    for (const std::string& cell : cells) {
        line += ' ';
        for (const char c : cell) {
            line += c == '|' ? "\\|" : std::string(1, c);
        }
        line += " |";
    }
    return line + '\n';
}

std::string cell_words(const CellText& text) {
    const std::string words = text.best ? "**" + text.main + "**" : text.main;
    return text.below.empty() ? words : fmt::format("{} ({})", words, fmt::join(text.below, "; "));
}

}  // namespace

std::string table_markdown(const ReportTable& table) {
    std::vector<std::string> head{table.rows_are};
    head.insert(head.end(), table.columns.begin(), table.columns.end());
    std::string text =
        fmt::format("**{}** ({})\n\n{}|---|", table.title, table.caption, line_of(head));
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        text += "---:|";
    }
    text += '\n';
    for (const ReportTable::Row& row : table.rows) {
        std::vector<std::string> cells{row.note == "hindsight" ? "*" + row.name + "*" : row.name};
        std::ranges::transform(row.cells, std::back_inserter(cells), cell_words);
        text += line_of(cells);
    }
    return text + '\n';
}

std::string report_markdown(const SweepResults& results) {
    const Comparison comparison = compare(results);
    std::string text;
    for (const std::string& sentence : verdicts(results, comparison)) {
        text += sentence + "\n\n";
    }
    for (const ReportTable& table : report_tables(results, comparison)) {
        text += table_markdown(table);
    }
    text +=
        "The first run of every mode. Every row's own command is in the column `command` of "
        "results.csv and on the page:\n\n```\n";
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        for (const ComparedCell& cell : comparison.cells[mode]) {
            if (!cell.rows.empty()) {
                text += cell.rows.front().command + '\n';
                break;
            }
        }
    }
    return text + "```\n";
}

}  // namespace cohort
