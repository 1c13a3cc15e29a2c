// Comma separated numbers, one sample per line; one column is the label. The first line is a header
// when the label's field in it is not a number.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/import/csv_text.hpp"
#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace cohort {

namespace {

std::vector<std::string_view> unquoted_fields_of(std::string_view line) {
    std::vector<std::string_view> fields = fields_of(line);
    for (std::string_view& field : fields) {
        if (field.size() >= 2 && field.front() == '"' && field.back() == '"') {
            field = field.substr(1, field.size() - 2);
        }
    }
    return fields;
}

/// Reads one file; what is not there yet is fixed by its first line.
class CsvReader {
public:
    CsvReader(const ImportFile& file, std::string label_column, ImportSink& sink)
        : file_(file), label_column_(std::move(label_column)), lines_(file.path), sink_(sink) {}

    void read() {
        while (std::optional<std::string_view> line = lines_.next()) {
            if (lines_.line() == 1 && line->starts_with("\xEF\xBB\xBF")) {
                line->remove_prefix(3);
            }
            if (!trimmed(*line).empty()) {
                take(unquoted_fields_of(*line));
            }
        }
        flush();
        require_file(begun_, file_.path, "the file holds no samples", "a line for each sample", "");
    }

private:
    void take(const std::vector<std::string_view>& fields) {
        if (columns_ == 0) {
            columns_ = fields.size();
            if (find_label(fields)) {
                return;
            }
        }
        require_file(fields.size() == columns_, lines_.where(), "wrong number of columns",
                     std::to_string(columns_), std::to_string(fields.size()));
        take_sample(fields);
    }

    /// Finds the label's column; true when `fields`, those of the first line, are the header: a
    /// label named by text is looked up in there, a numbered one has no number in a header.
    bool find_label(const std::vector<std::string_view>& fields) {
        const std::optional<std::size_t> index = parsed<std::size_t>(label_column_);
        const auto named = std::ranges::find(fields, label_column_);
        label_ = index.value_or(static_cast<std::size_t>(named - fields.begin()));
        require_file(label_ < columns_, lines_.where(),
                     fmt::format("there is no label column '{}'", label_column_),
                     index ? fmt::format("a number from 0 to {}", columns_ - 1)
                           : fmt::format("one of: {}", fmt::join(fields, ", ")),
                     "", "--label-column");
        require_file(columns_ >= 2, lines_.where(), "too few columns",
                     "a label and at least one number", std::to_string(columns_));
        return !index || (!fields[label_].empty() && !parsed<double>(fields[label_]));
    }

    void take_sample(const std::vector<std::string_view>& fields) {
        if (!begun_) {
            sink_.begin({file_, file_}, {static_cast<std::int64_t>(columns_ - 1)},
                        SampleType::kF32);
            begun_ = true;
        }
        for (std::size_t column = 0; column < fields.size(); ++column) {
            if (column == label_) {
                labels_.push_back(label(fields[column]));
                continue;
            }
            const std::optional<float> value = parsed<float>(fields[column]);
            if (!value || !std::isfinite(*value)) {
                fail_field(column, "a finite number", fields[column]);
            }
            values_.push_back(*value);
        }
        if (static_cast<std::int64_t>(labels_.size()) >= sink_.block_samples()) {
            flush();
        }
    }

    std::int32_t label(std::string_view field) {
        const std::optional<double> value = parsed<double>(field);
        if (!value || *value != std::floor(*value) || *value < 0 || *value >= 2147483647.0) {
            fail_field(label_, "a label: an integer of 0 or more", field);
        }
        return static_cast<std::int32_t>(*value);
    }

    [[noreturn]] void fail_field(std::size_t column, std::string_view expected,
                                 std::string_view got) const {
        fail<FileError>({.where = lines_.where(),
                         .what = fmt::format("unusable value in column {}", column),
                         .expected = expected,
                         .got = fmt::format("'{}'", got)});
    }

    void flush() {
        if (!labels_.empty()) {
            sink_.append(std::as_bytes(std::span(values_)), labels_);
        }
        values_.clear();
        labels_.clear();
    }

    const ImportFile& file_;
    std::string label_column_;
    LineReader lines_;
    ImportSink& sink_;
    std::size_t columns_ = 0;  // 0 until the first line
    std::size_t label_ = 0;
    bool begun_ = false;
    std::vector<float> values_;
    std::vector<std::int32_t> labels_;
};

}  // namespace

void import_csv(const std::vector<ImportFile>& files, const std::string& label_column,
                ImportSink& sink) {
    for (const ImportFile& file : files) {
        CsvReader(file, label_column, sink).read();
    }
}

}  // namespace cohort
