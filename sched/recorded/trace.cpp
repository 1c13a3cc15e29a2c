#include "sched/recorded/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/sched/job_limits.hpp"
#include "data/file/text_file.hpp"
#include "data/text/csv_text.hpp"

namespace cohort {
namespace {

/// A column that holds one of the shares.
struct ShareColumn {
    std::string_view name;
    double Shares::*field;
    bool is_share;   ///< in (0, 1]; else seconds
    bool node_only;  ///< rows of workers cannot have it
};
constexpr std::array<ShareColumn, 5> kShares{{
    {"cpu_share", &Shares::cpu, true, false},
    {"rx_share", &Shares::rx, true, true},
    {"tx_share", &Shares::tx, true, true},
    {"device_share", &Shares::device, true, false},
    {"delay_s", &Shares::delay_s, false, false},
}};
/// Smaller shares would take longer than anything lasts.
constexpr Limits<double> kShareLimits{.least = 1e-9, .most = 1};
constexpr std::string_view kTime = "time_s";
constexpr std::string_view kTarget = "target";
constexpr std::string_view kHeader =
    "time_s,target,cpu_share,rx_share,tx_share,device_share,delay_s";

double number(const CsvPlace& place, std::string_view column, std::string_view text,
              bool is_share) {
    const std::optional<double> value = parsed<double>(text);
    const Limits<double>& limits = is_share ? kShareLimits : kVirtualSecondsLimits;
    require_csv(value && limits.contain(*value), place, column,
                (is_share ? "a share, " : "seconds, ") + limits.text(), text);
    return *value;
}

TraceTarget target(const CsvPlace& place, std::string_view text) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view kind = text.substr(0, colon);
    const std::optional<int> index = parsed<int>(text.substr(std::min(colon + 1, text.size())));
    const bool known = kind == "node" || kind == "worker";
    require_file(known && index && *index >= 0 && *index < kMostPlaces, place.text(kTarget),
                 "cannot be understood",
                 fmt::format("node:INDEX or worker:INDEX, INDEX from 0 to {}", kMostPlaces - 1),
                 fmt::format("'{}'", text));
    return {.kind = kind == "node" ? TraceTarget::Kind::kNode : TraceTarget::Kind::kWorker,
            .index = *index};
}

/// Checks the header. @return its columns
std::vector<std::string_view> read_columns(const CsvPlace& place, std::string_view line) {
    std::vector<std::string_view> columns = fields_of(line);
    for (const std::string_view column : columns) {
        const bool known =
            column == kTime || column == kTarget ||
            std::ranges::any_of(kShares, [&](const ShareColumn& c) { return c.name == column; });
        require_file(known && std::ranges::count(columns, column) == 1, place.text(),
                     known ? "a column comes twice" : "unknown column", kHeader,
                     fmt::format("'{}'", column));
    }
    for (const std::string_view needed : {kTime, kTarget}) {
        require_file(std::ranges::count(columns, needed) > 0, place.text(),
                     fmt::format("there is no column {}", needed), kHeader,
                     fmt::format("'{}'", line));
    }
    return columns;
}

TraceRow row_of(const CsvPlace& place, const std::vector<std::string_view>& columns,
                std::string_view line) {
    const std::vector<std::string_view> fields = fields_of(place, columns.size(), line);
    TraceRow row;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        if (columns[i] == kTime) {
            row.time_s = number(place, kTime, fields[i], false);
        } else if (columns[i] == kTarget) {
            row.target = target(place, fields[i]);
        }
        for (const ShareColumn& share : kShares) {
            if (share.name == columns[i]) {
                row.shares.*(share.field) = number(place, share.name, fields[i], share.is_share);
            }
        }
    }
    for (const ShareColumn& share : kShares) {
        if (share.node_only && row.target.kind == TraceTarget::Kind::kWorker &&
            row.shares.*(share.field) != 1) {
            fail<FileError>({.where = place.text(share.name),
                             .what = "a network card belongs to a node",
                             .expected = "1 in rows of workers",
                             .got = fmt::format("{}", row.shares.*(share.field))});
        }
    }
    return row;
}

}  // namespace

std::string to_string(const TraceTarget& target) {
    return fmt::format("{}:{}", target.kind == TraceTarget::Kind::kNode ? "node" : "worker",
                       target.index);
}

std::vector<TraceRow> read_trace(const std::string& path) {
    const std::string text = read_text_file(path);
    std::vector<TraceRow> rows;
    std::vector<std::string_view> columns;
    each_csv_line(path, text, [&](const CsvPlace& place, std::string_view line) {
        if (columns.empty()) {
            columns = read_columns(place, line);
        } else {
            rows.push_back(row_of(place, columns, line));
        }
    });
    require_file(!columns.empty(), path, "there is no header", kHeader, "");
    std::ranges::stable_sort(
        rows, [](const TraceRow& a, const TraceRow& b) { return a.time_s < b.time_s; });
    return rows;
}

void write_trace(const OutputFile& file, const std::vector<TraceRow>& rows) {
    std::string text(kHeader);
    text += '\n';
    for (const TraceRow& row : rows) {
        text += fmt::format("{},{}", row.time_s, to_string(row.target));
        for (const ShareColumn& share : kShares) {
            text += fmt::format(",{}", row.shares.*(share.field));
        }
        text += '\n';
    }
    replace_text_file(file, text);
}

}  // namespace cohort
