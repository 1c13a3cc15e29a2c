#include <fmt/format.h>

#include "report/page/page.hpp"
#include "report/page/report_tables.hpp"

namespace cohort {
namespace {

std::string cell_of(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        escaped += c == '|' ? "\\|" : std::string(1, c);
    }
    return escaped + " | ";
}

std::string cell_of(const CellText& text) {
    std::string words = text.best ? "**" + text.main + "**" : text.main;
    if (!text.below.empty()) {
        words += fmt::format(" ({})", fmt::join(text.below, "; "));
    }
    return cell_of(words);
}

std::string markdown_of(const ReportTable& table) {
    std::string text = fmt::format("**{}** ({})\n\n| mode | ", table.title, table.caption);
    for (const std::string& column : table.columns) {
        text += cell_of(column);
    }
    text += "\n|---|";
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        text += "---:|";
    }
    text += '\n';
    for (const ReportTable::Row& row : table.rows) {
        text += "| " + cell_of(row.note == "hindsight" ? "*" + row.name + "*" : row.name);
        for (const CellText& cell : row.cells) {
            text += cell_of(cell);
        }
        text += '\n';
    }
    return text + '\n';
}

/// Lines end without blanks.
std::string without_trailing_blanks(const std::string& text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!(text[i] == ' ' && i + 1 < text.size() && text[i + 1] == '\n')) {
            result += text[i];
        }
    }
    return result;
}

}  // namespace

std::string report_markdown(const SweepResults& results) {
    const Comparison comparison = compare(results);
    std::string text;
    for (const std::string& sentence : verdicts(results, comparison)) {
        text += sentence + "\n\n";
    }
    for (const ReportTable& table : report_tables(results, comparison)) {
        text += markdown_of(table);
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
    return without_trailing_blanks(text) + "```\n";
}

}  // namespace cohort
