// Comma separated numbers, one sample per line; one column is the label, or some are targets. The
// first line is a header when such a column is named by text or its field there is not a number.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/import/csv_text.hpp"
#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

/// In place of a column's place among labels or targets: it is part of the sample.
constexpr std::size_t kSample = std::numeric_limits<std::size_t>::max();

/// Reads one file; what is not there yet is fixed by its first line.
class CsvReader {
public:
    CsvReader(const ImportFile& file, const ImportOptions& options, ImportSink& sink)
        : file_(file),
          regression_(options.regression || !options.target_columns.empty()),
          option_(options.target_columns.empty() ? "--label-column" : "--target-columns"),
          names_(options.target_columns.empty() ? std::vector{options.label_column}
                                                : options.target_columns),
          lines_(file.path),
          sink_(sink) {}

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
        if (place_.empty()) {
            place_.assign(fields.size(), kSample);
            if (find_labels(fields)) {
                return;
            }
        }
        require_file(fields.size() == place_.size(), lines_.where(), "wrong number of columns",
                     std::to_string(place_.size()), std::to_string(fields.size()));
        take_sample(fields);
    }

    /// Finds the columns of labels or targets; true when `fields`, those of the first line, are the
    /// header: a column named by text is looked up in there, a numbered one has no number in a
    /// header.
    bool find_labels(const std::vector<std::string_view>& fields) {
        bool header = false;
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const std::optional<std::size_t> index = parsed<std::size_t>(names_[i]);
            const auto named = std::ranges::find(fields, names_[i]);
            const std::size_t column =
                index.value_or(static_cast<std::size_t>(named - fields.begin()));
            require_file(column < place_.size(), lines_.where(),
                         fmt::format("there is no {} column '{}'", regression_ ? "target" : "label",
                                     names_[i]),
                         index ? fmt::format("a number from 0 to {}", place_.size() - 1)
                               : fmt::format("one of: {}", fmt::join(fields, ", ")),
                         "", option_);
            require_file(place_[column] == kSample, lines_.where(),
                         "a column is two targets at once", "columns that differ",
                         fmt::format("'{}' again", names_[i]), option_);
            place_[column] = i;
            header =
                header || !index || (!fields[column].empty() && !parsed<double>(fields[column]));
        }
        require_file(place_.size() > names_.size(), lines_.where(), "too few columns",
                     regression_ ? "targets and at least one other number"
                                 : "a label and at least one number",
                     std::to_string(place_.size()));
        return header;
    }

    void take_sample(const std::vector<std::string_view>& fields) {
        if (!begun_) {
            const auto targets = static_cast<std::int64_t>(names_.size());
            sink_.begin({file_, file_}, {static_cast<std::int64_t>(place_.size()) - targets},
                        SampleType::kF32, 0, regression_ ? targets : 0);
            begun_ = true;
        }
        const std::size_t first_target = targets_.size();
        targets_.resize(first_target + (regression_ ? names_.size() : 0));
        for (std::size_t column = 0; column < fields.size(); ++column) {
            if (place_[column] == kSample) {
                values_.push_back(number(fields, column));
            } else if (regression_) {
                targets_[first_target + place_[column]] = number(fields, column);
            } else {
                labels_.push_back(label(fields, column));
            }
        }
        ++samples_;
        if (samples_ >= sink_.block_samples()) {
            flush();
        }
    }

    [[nodiscard]] float number(const std::vector<std::string_view>& fields,
                               std::size_t column) const {
        const std::optional<float> value = parsed<float>(fields[column]);
        if (!value || !std::isfinite(*value)) {
            fail_field(column, "a finite number", fields[column]);
        }
        return *value;
    }

    [[nodiscard]] std::int32_t label(const std::vector<std::string_view>& fields,
                                     std::size_t column) const {
        const std::optional<double> value = parsed<double>(fields[column]);
        if (!value || *value != std::floor(*value) || *value < 0 || *value >= 2147483647.0) {
            fail_field(
                column, "a label: an integer of 0 or more", fields[column],
                value && std::isfinite(*value) ? "--target-columns for numbers to predict" : "");
        }
        return static_cast<std::int32_t>(*value);
    }

    [[noreturn]] void fail_field(std::size_t column, std::string_view expected,
                                 std::string_view got, std::string_view hint = "") const {
        fail<FileError>({.where = lines_.where(),
                         .what = fmt::format("unusable value in column {}", column),
                         .expected = expected,
                         .got = fmt::format("'{}'", got),
                         .hint = hint});
    }

    void flush() {
        if (samples_ > 0) {
            sink_.append(std::as_bytes(std::span(values_)), labels_, targets_);
        }
        samples_ = 0;
        values_.clear();
        labels_.clear();
        targets_.clear();
    }

    const ImportFile& file_;
    bool regression_;
    std::string_view option_;         // that names the columns
    std::vector<std::string> names_;  // of the label's column, or of the targets'
    LineReader lines_;
    ImportSink& sink_;
    std::vector<std::size_t>
        place_;  // by column: place in names_, or kSample; empty until the first line
    bool begun_ = false;
    std::int64_t samples_ = 0;  // not passed on yet
    std::vector<float> values_;
    std::vector<std::int32_t> labels_;
    std::vector<float> targets_;
};

}  // namespace

void import_csv(const std::vector<ImportFile>& files, const ImportOptions& options,
                ImportSink& sink) {
    for (const ImportFile& file : files) {
        CsvReader(file, options, sink).read();
    }
}

}  // namespace cohort
