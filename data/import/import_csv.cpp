// Comma separated numbers, one sample per line; one column is the label. The first line is a header
// when the label's field in it is not a number.
#include "cohort/core/error.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace cohort {

namespace {

std::string_view unquoted(std::string_view text) {
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && blank(text.front())) {
        text.remove_prefix(1);
    }
    while (!text.empty() && blank(text.back())) {
        text.remove_suffix(1);
    }
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
        text = text.substr(1, text.size() - 2);
    }
    return text;
}

std::vector<std::string_view> unquoted_fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    std::size_t end = line.find(',');
    while (end != std::string_view::npos) {
        fields.push_back(unquoted(line.substr(0, end)));
        line.remove_prefix(end + 1);
        end = line.find(',');
    }
    fields.push_back(unquoted(line));
    return fields;
}

template <class T>
std::optional<T> number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
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
            if (unquoted(*line).empty()) {
                continue;
            }
            take(unquoted_fields_of(*line));
        }
        flush();
        if (!begun_) {
            fail<FileError>({.where = file_.path,
                             .what = "the file holds no samples",
                             .expected = "a line for each sample"});
        }
    }

private:
    void take(const std::vector<std::string_view>& fields) {
        if (columns_ == 0) {
            columns_ = fields.size();
            const bool header = find_label(fields);
            if (header) {
                return;
            }
        }
        if (fields.size() != columns_) {
            fail<FileError>({.where = lines_.where(),
                             .what = "wrong number of columns",
                             .expected = fmt::format("{}", columns_),
                             .got = fmt::format("{}", fields.size())});
        }
        take_sample(fields);
    }

    /// Finds the label's column; true when `fields`, those of the first line, are the header: a
    /// label named by text is looked up in there, a numbered one has no number in a header.
    bool find_label(const std::vector<std::string_view>& fields) {
        const std::optional<std::size_t> index = number<std::size_t>(label_column_);
        const auto named = std::find(fields.begin(), fields.end(), label_column_);
        label_ = index.value_or(static_cast<std::size_t>(named - fields.begin()));
        if (label_ >= columns_) {
            fail<FileError>({.where = lines_.where(),
                             .what = fmt::format("there is no label column '{}'", label_column_),
                             .expected = index ? fmt::format("a number from 0 to {}", columns_ - 1)
                                               : fmt::format("one of: {}", fmt::join(fields, ", ")),
                             .hint = "--label-column"});
        }
        if (columns_ < 2) {
            fail<FileError>({.where = lines_.where(),
                             .what = "too few columns",
                             .expected = "a label and at least one number",
                             .got = fmt::format("{}", columns_)});
        }
        return !index || (!fields[label_].empty() && !number<double>(fields[label_]));
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
            const std::optional<float> value = number<float>(fields[column]);
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
        const std::optional<double> value = number<double>(field);
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
