#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "cohort/report/sweep_results.hpp"

namespace cohort {

/// A value of a table; NaN: none. `hex` numbers are hashes.
struct HashValue {
    std::uint64_t value = 0;
};
using ColumnValue = std::variant<std::string, double, std::int64_t, HashValue>;

/// A column of results.csv and results.h5.
template <class Row>
struct Column {
    std::string name;
    std::function<ColumnValue(const Row&)> get;
};

[[nodiscard]] const std::vector<Column<RunRow>>& run_columns();
[[nodiscard]] const std::vector<Column<TuningRow>>& tuning_columns();

/// Text of a value in CSV: nine digits, quotes where they are needed.
[[nodiscard]] std::string csv_text(const ColumnValue& value);

/// A header and a line per row (RFC 4180, lines end with \n).
template <class Row>
[[nodiscard]] std::string csv_of(const std::vector<Column<Row>>& columns,
                                 const std::vector<Row>& rows) {
    std::string text;
    for (const Column<Row>& column : columns) {
        text += (text.empty() ? "" : ",") + column.name;
    }
    text += '\n';
    for (const Row& row : rows) {
        std::string line;
        for (const Column<Row>& column : columns) {
            line += (&column == &columns.front() ? "" : ",") + csv_text(column.get(row));
        }
        text += line + '\n';
    }
    return text;
}

}  // namespace cohort
