#include <fmt/format.h>

#include "cell_text.hpp"
#include "cohort/report/page.hpp"

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
    std::string words = text.best ? "**" + text.median + "**" : text.median;
    if (!text.spread.empty()) {
        words += " (" + text.spread + ")";
    }
    return cell_of(words);
}

std::string head_of(const std::vector<std::string>& columns) {
    std::string text = "| mode | ";
    for (const std::string& column : columns) {
        text += cell_of(column);
    }
    text += "\n|---|";
    for (std::size_t i = 0; i < columns.size(); ++i) {
        text += "---:|";
    }
    return text + '\n';
}

std::string table_of(const SweepResults& results, const Comparison& comparison,
                     const Measure& measure) {
    const bool regrets = measure.spread == &ComparedCell::regret;
    std::vector<std::string> columns = results.patterns;
    if (regrets) {
        columns.insert(columns.begin(), "all patterns");
    }
    std::string text =
        fmt::format("**{}** ({}): median of {} seed(s){}\n\n", measure.title, measure.unit,
                    results.seeds.size(), results.seeds.size() == 1 ? "" : " (least–most)") +
        head_of(columns);
    for (std::size_t mode = 0; mode < results.modes.size(); ++mode) {
        text += "| " + cell_of(results.modes[mode].name) +
                (regrets ? cell_of(regret_text(comparison, mode)) : "");
        for (std::size_t pattern = 0; pattern < results.patterns.size(); ++pattern) {
            text += cell_of(cell_text(comparison, measure, mode, pattern, results.seeds.size()));
        }
        text += '\n';
    }
    if (measure.spread == &ComparedCell::tta_s) {
        text += "| *oracle* | ";
        for (const OracleCell& cell : comparison.oracle) {
            CellText words = oracle_text(cell);
            words.spread = choices_text(cell);
            text += cell_of(words);
        }
        text += '\n';
    }
    return text + '\n';
}

/// Tables of modes against every other one.
std::string duels_of(const SweepResults& results, const Comparison& comparison) {
    std::string text;
    const Duel* last = nullptr;
    for (const Duel& duel : comparison.duels) {
        if (last == nullptr || last->mode != duel.mode) {
            text += fmt::format(
                "{}**{} against each** (its time to the target relative to the row's, of the same "
                "pattern and seed, less one): median of all pairs (least–most)\n\n",
                last == nullptr ? "" : "\n", results.modes[duel.mode].name);
            text += head_of(duel_columns(results.patterns));
        }
        text += "| " + cell_of(results.modes[duel.other].name);
        for (const CellText& cell : duel_cells(duel, results.patterns)) {
            text += cell_of(cell);
        }
        text += '\n';
        last = &duel;
    }
    return text.empty() ? text : text + '\n';
}

/// Lines end without blanks.
std::string trimmed(const std::string& text) {
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
    for (const Measure& measure : measures_of(comparison)) {
        text += table_of(results, comparison, measure);
        if (measure.spread == &ComparedCell::regret) {
            text += duels_of(results, comparison);
        }
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
    return trimmed(text) + "```\n";
}

}  // namespace cohort
