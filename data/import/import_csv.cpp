// Comma separated numbers, one sample per line; one column is the label, or some are targets. The
// first line is a header when such a column is named by text or its field there is not a number.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"
#include "data/text/csv_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

namespace cohort {

namespace {

/// The fields of a line (RFC 4180): between commas; one in quotation marks may have commas in it,
/// and two marks in place of one.
class CsvFields {
public:
    /// Valid until the next call. @param where  of the line  Errors: FileError.
    const std::vector<std::string_view>& split(std::string_view line, const std::string& where) {
        fields_.clear();
        unescaped_.clear();
        for (std::size_t comma = 0; comma != std::string_view::npos;) {
            const std::string_view rest = trimmed(line);
            std::size_t end = 0;
            std::string_view field;
            if (rest.starts_with('"')) {
                line = rest;
                field = quoted(line, end, where);
            }
            comma = line.find(',', end);
            const std::string_view plain = trimmed(line.substr(end, comma - end));
            require_file(end == 0 || plain.empty(), where,
                         "text behind the quotation mark that ends a field", "a comma",
                         fmt::format("'{}'", plain));
            fields_.push_back(end == 0 ? plain : field);
            line.remove_prefix(comma == std::string_view::npos ? line.size() : comma + 1);
        }
        return fields_;
    }

private:
    /// @param end  becomes the place behind the mark that ends it
    std::string_view quoted(std::string_view line, std::size_t& end, const std::string& where) {
        bool doubled = false;
        for (end = line.find('"', 1);
             end != std::string_view::npos && end + 1 < line.size() && line[end + 1] == '"';
             end = line.find('"', end + 2)) {
            doubled = true;
        }
        require_file(end != std::string_view::npos, where,
                     "a quotation mark without its partner in the line", "\"...\"", "");
        const std::string_view inner = line.substr(1, end - 1);
        ++end;
        if (!doubled) {
            return inner;
        }
        std::string& text = unescaped_.emplace_back();
        for (std::size_t i = 0; i < inner.size(); ++i) {
            text += inner[i];
            i += inner[i] == '"' ? 1 : 0;
        }
        return text;
    }

    std::vector<std::string_view> fields_;
    std::deque<std::string> unescaped_;
};

/// Errors: FileError for a line whose fields are separated by something else than commas; numbers
/// may have commas in them then.
void check_separator(std::string_view line, const std::string& where) {
    for (const auto& [mark, name] :
         {std::pair(';', "semicolons"), std::pair('\t', "tabs"), std::pair('|', "bars")}) {
        const auto marks = std::ranges::count(line, mark);
        const auto commas = std::ranges::count(line, ',');
        std::string_view rest = line;
        bool numbers = marks > 0;
        for (std::size_t at = 0; numbers && at != std::string_view::npos;) {
            at = rest.find(mark);
            std::string field(trimmed(rest.substr(0, at)));
            std::ranges::replace(field, ',', '.');
            numbers = parsed<double>(field).has_value();
            rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
        }
        require_file(marks <= commas && !numbers, where,
                     fmt::format("the fields are separated by {}", name), "commas",
                     fmt::format("'{}'", line.substr(0, 40)),
                     "pandas.read_csv(FILE, sep=...) and to_csv(NEW, index=False)");
    }
}

/// In place of a column's place among labels or targets: it is part of the sample.
constexpr std::size_t kSample = std::numeric_limits<std::size_t>::max();

/// Whether a column without a name counts the rows, as pandas writes it.
class RowNumbers {
public:
    /// @param name  of the first column in the header; nothing: there is no header
    void begin(std::optional<std::string_view> name) {
        nameless_ = name && (name->empty() || name->starts_with("Unnamed: "));
    }
    void take(std::string_view field) {
        const std::optional<std::int64_t> number =
            nameless_ ? parsed<std::int64_t>(field) : std::nullopt;
        nameless_ = number && (rows_ == 0 || *number == last_ + 1);
        last_ = number.value_or(0);
        ++rows_;
    }
    [[nodiscard]] bool found() const { return nameless_ && rows_ > 1; }

private:
    bool nameless_ = false;  // and with consecutive numbers so far
    std::int64_t last_ = 0;
    std::int64_t rows_ = 0;
};

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
                if (place_.empty()) {
                    check_separator(*line, lines_.where());
                }
                take(fields_.split(*line, lines_.where()));
            }
        }
        flush();
        if (first_column_.found() && !sink_.counting()) {
            log_warn(
                "{}: the first column has no name and counts the rows; {} (pandas writes it unless "
                "to_csv gets index=False)",
                file_.path,
                place_.front() == kSample ? "it is part of the samples" : "it is the label");
        }
        require_file(begun_, file_.path, "the file holds no samples", "a line for each sample", "");
    }

private:
    /// What was read and not passed on yet.
    struct Block {
        std::int64_t samples = 0;
        std::vector<float> values;
        std::vector<std::int32_t> labels;
        std::vector<float> targets;
    };

    void take(const std::vector<std::string_view>& fields) {
        if (place_.empty()) {
            place_.assign(fields.size(), kSample);
            const bool header = find_labels(fields);
            first_column_.begin(header ? std::optional(fields[0]) : std::nullopt);
            if (header) {
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
            header = header || !index || is_name(fields[column]) ||
                     (fields[column].empty() && std::ranges::any_of(fields, is_name));
        }
        require_file(place_.size() > names_.size(), lines_.where(), "too few columns",
                     regression_ ? "targets and at least one other number"
                                 : "a label and at least one number",
                     std::to_string(place_.size()));
        return header;
    }

    static bool is_name(std::string_view field) { return !field.empty() && !parsed<double>(field); }

    void take_sample(const std::vector<std::string_view>& fields) {
        first_column_.take(fields[0]);
        if (!begun_) {
            const auto targets = static_cast<std::int64_t>(names_.size());
            sink_.begin({file_, file_}, {static_cast<std::int64_t>(place_.size()) - targets},
                        SampleType::kF32, 0, regression_ ? targets : 0);
            begun_ = true;
        }
        const std::size_t first_target = block_.targets.size();
        block_.targets.resize(first_target + (regression_ ? names_.size() : 0));
        for (std::size_t column = 0; column < fields.size(); ++column) {
            if (place_[column] == kSample) {
                block_.values.push_back(number(fields, column));
            } else if (regression_) {
                block_.targets[first_target + place_[column]] = number(fields, column);
            } else {
                block_.labels.push_back(label(fields, column));
            }
        }
        ++block_.samples;
        if (block_.samples >= sink_.block_samples()) {
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
        if (block_.samples > 0) {
            sink_.append(std::as_bytes(std::span(block_.values)), block_.labels, block_.targets);
        }
        block_.samples = 0;
        block_.values.clear();
        block_.labels.clear();
        block_.targets.clear();
    }

    const ImportFile& file_;
    bool regression_;
    std::string_view option_;         // that names the columns
    std::vector<std::string> names_;  // of the label's column, or of the targets'
    LineReader lines_;
    CsvFields fields_;
    ImportSink& sink_;
    std::vector<std::size_t>
        place_;  // by column: place in names_, or kSample; empty until the first line
    bool begun_ = false;
    RowNumbers first_column_;
    Block block_;
};

}  // namespace

void import_csv(const std::vector<ImportFile>& files, const ImportOptions& options,
                ImportSink& sink) {
    for (const ImportFile& file : files) {
        CsvReader(file, options, sink).read();
    }
}

}  // namespace cohort
