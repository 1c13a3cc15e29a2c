#include "sched/recorded/recorded_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/sched/job_limits.hpp"
#include "data/file/text_file.hpp"
#include "data/text/csv_text.hpp"

namespace cohort {
namespace {

struct Column {
    std::string_view name;
    bool whole;          ///< a number without a fraction
    double most = 1e15;  ///< sums of so many are exact enough, and whole ones are whole
    double (*get)(const IterationRecord& record) = nullptr;
    void (*set)(IterationRecord& record, double value) = nullptr;
};

/// Of the record, or of what it says of the resources.
template <auto Field, class Record>
auto& field_of(Record& record) {
    if constexpr (requires { record.*Field; }) {
        return record.*Field;
    } else {
        return record.use.*Field;
    }
}

template <auto Field>
constexpr Column column(std::string_view name, double most = 1e15) {
    using T = std::remove_reference_t<decltype(field_of<Field>(std::declval<IterationRecord&>()))>;
    return {name, std::is_integral_v<T>, most,
            [](const IterationRecord& r) { return static_cast<double>(field_of<Field>(r)); },
            [](IterationRecord& r, double value) { field_of<Field>(r) = static_cast<T>(value); }};
}

using Record = IterationRecord;
constexpr std::array<Column, 16> kColumns{{
    column<&Record::worker>("worker", kMostPlaces - 1),
    column<&Record::iteration>("iteration"),
    column<&Record::samples>("samples"),
    column<&Record::version>("version"),
    column<&Record::arrived_s>("arrived_s"),
    column<&Record::input_s>("input_s"),
    column<&Record::compute_s>("compute_s"),
    column<&Record::push_s>("push_s"),
    column<&Record::pull_s>("pull_s"),
    column<&Record::wait_s>("wait_s"),
    column<&Record::lag>("lag"),
    column<&ResourceUse::cpu_share>("cpu_share"),
    column<&ResourceUse::host_busy>("host_busy"),
    column<&ResourceUse::host_steal>("host_steal"),
    column<&ResourceUse::rx_bytes_s>("rx_bytes_s"),
    column<&ResourceUse::tx_bytes_s>("tx_bytes_s"),
}};
constexpr Column kBatch{"batch", true, kBatchLimits.most};  ///< the first: --batch of the run

std::string header_line() {
    std::string text(kBatch.name);
    for (const Column& column : kColumns) {
        text += fmt::format(",{}", column.name);
    }
    return text;
}

bool fits(const Column& column, double value) {
    return value >= 0 && value <= column.most && (!column.whole || std::floor(value) == value);
}

[[noreturn]] void refuse_column(const std::string& where, const Column& column,
                                std::string_view got) {
    fail<FileError>(
        {.where = where,
         .what = "cannot be used",
         .expected = fmt::format("a {}number, 0 to {}", column.whole ? "whole " : "", column.most),
         .got = fmt::format("'{}'", got)});
}

double number(const CsvPlace& place, const Column& column, std::string_view text) {
    const std::optional<double> value = parsed<double>(text);
    if (!value || !fits(column, *value)) {
        refuse_column(place.text(column.name), column, text);
    }
    return *value;
}

IterationRecord record_of(const CsvPlace& place, const std::vector<std::string_view>& fields) {
    IterationRecord record;
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
        const Column& column = kColumns[i];
        column.set(record, number(place, column, fields[i + 1]));
    }
    return record;
}

}  // namespace

void check_record(const IterationRecord& record, const std::string& where) {
    for (const Column& column : kColumns) {
        if (const double value = column.get(record); !fits(column, value)) {
            refuse_column(fmt::format("{}:/records/{}", where, column.name), column,
                          fmt::format("{}", value));
        }
    }
}

std::string recorded_load_header() {
    return header_line() + '\n';
}

void append_recorded_load(std::string& text, const IterationRecord& record, std::int64_t batch) {
    text += std::to_string(batch);
    for (const Column& column : kColumns) {
        fmt::format_to(std::back_inserter(text), ",{:.9g}", column.get(record));
    }
    text += '\n';
}

RecordedLoad parse_recorded_load(const std::string& file) {
    RecordedLoad load;
    load.file = load.what = file;
    bool headed = false;
    const std::string columns = header_line();
    each_csv_line(file, read_text_file(file), [&](const CsvPlace& place, std::string_view line) {
        if (!std::exchange(headed, true)) {
            return require_file(line == columns, place.text(),
                                "not a file of cohort train --record-load", columns,
                                fmt::format("'{:.80}'", line));
        }
        const std::vector<std::string_view> fields = fields_of(place, kColumns.size() + 1, line);
        load.batch = static_cast<std::int64_t>(number(place, kBatch, fields.front()));
        load.records.push_back(record_of(place, fields));
        load.workers = std::max(load.workers, load.records.back().worker + 1);
    });
    require_file(!load.records.empty() && load.batch >= 1, file, "nothing was recorded",
                 "a file of cohort train --record-load", "");
    return load;
}

}  // namespace cohort
