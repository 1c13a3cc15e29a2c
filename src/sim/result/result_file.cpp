#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "data/file/file_io.hpp"
#include "data/hdf5/store.hpp"
#include "data/text/csv_text.hpp"
#include "sim/result/result_fields.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

const StoreFormat kResultFormat{"cohort-simulation", 1};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// How a field is stored: reals (missing ones as NaN), whole numbers without a sign of 64 bits,
/// and all other whole numbers.
template <class T>
using Stored = std::conditional_t<
    std::is_floating_point_v<T> || IsOptional<T>::value, double,
    std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>>;

/// The last value of the enumerations that rows hold.
constexpr LaneSpan::Kind last_of(LaneSpan::Kind /*type*/) {
    return LaneSpan::Kind::kLost;
}
constexpr StragglerCause last_of(StragglerCause /*type*/) {
    return StragglerCause::kGpuShared;
}

template <class T>
Stored<T> to_stored(const T& value) {
    if constexpr (IsOptional<T>::value) {
        return value ? *value : std::numeric_limits<double>::quiet_NaN();
    } else {
        return static_cast<Stored<T>>(value);
    }
}

template <class T>
void from_stored(Stored<T> stored, T& value) {
    if constexpr (IsOptional<T>::value) {
        value = std::isnan(stored) ? T() : T(stored);
    } else {
        value = static_cast<T>(stored);
    }
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

// Texts of rows as lines. What is read is what was written, to the last bit.

template <class T>
T number(const std::string& text) {
    const std::optional<T> value = parsed<T>(text);
    if (!value) {
        fail<FileError>({.where = "decisions",
                         .what = "a list is damaged",
                         .expected = "a number",
                         .got = fmt::format("'{}'", text)});
    }
    return *value;
}

std::string to_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}
/// "3 5"
std::string to_line(const std::vector<int>& workers) {
    return fmt::format("{}", fmt::join(workers, " "));
}
/// "static:7|8192|0.5|1|4096;ssgd|...": plan, samples_s, batch_efficiency, staleness_efficiency,
/// rate.
std::string to_line(const std::vector<Candidate>& candidates) {
    std::string text;
    for (const Candidate& one : candidates) {
        text += fmt::format("{}{}|{}|{}|{}|{}", text.empty() ? "" : ";", one.plan, one.samples_s,
                            one.batch_efficiency, one.staleness_efficiency, one.rate);
    }
    return to_line(std::move(text));
}

void from_line(const std::string& line, std::string& text) {
    text = line;
}
void from_line(const std::string& line, std::vector<int>& workers) {
    for (const std::string& part : split(line, ' ')) {
        workers.push_back(number<int>(part));
    }
}
void from_line(const std::string& line, std::vector<Candidate>& candidates) {
    constexpr std::size_t kFields = 5;
    for (const std::string& part : split(line, ';')) {
        const std::vector<std::string> fields = split(part, '|');
        if (fields.size() != kFields) {
            fail<FileError>({.where = "decisions",
                             .what = "a candidate is damaged",
                             .expected = "plan and four numbers",
                             .got = fmt::format("'{}'", part)});
        }
        candidates.push_back({.plan = fields[0],
                              .samples_s = number<double>(fields[1]),
                              .batch_efficiency = number<double>(fields[2]),
                              .staleness_efficiency = number<double>(fields[3]),
                              .rate = number<double>(fields[4])});
    }
}

template <class T>
concept Text = requires(const T& field) {
    to_line(field);
};

class ResultWriter {
public:
    ResultWriter(OutputFile file, Hdf5Thread& thread)
        : file_(std::move(file), kResultFormat, thread) {}

    template <class T>
    void value(const std::string& group, const std::string& name, const T& field) {
        if constexpr (std::is_same_v<T, std::string>) {
            file_.set(group, name, field);
        } else {
            file_.set(group, name, to_stored(field));
        }
    }
    template <class T>
    void value(const std::string& group, const std::string& name, const std::optional<T>& field) {
        if (field) {
            value(group, name, *field);
        }
    }
    template <class T>
    void array(const std::string& path, const std::vector<T>& numbers) {
        file_.put(path, numbers);
    }
    /// Every line of a text ends with a line feed, so that an empty one is not lost.
    template <class Row, class Get>
    void column(const std::string& group, const std::vector<Row>& rows, const Named<Get>& column) {
        using Field = std::remove_cvref_t<std::invoke_result_t<Get, const Row&>>;
        if constexpr (Text<Field>) {
            std::string text;
            for (const Row& row : rows) {
                text += to_line(std::invoke(column.get, row)) + "\n";
            }
            file_.set(group, column.name, text);
        } else {
            std::vector<Stored<Field>> numbers;
            for (const Row& row : rows) {
                numbers.push_back(to_stored(std::invoke(column.get, row)));
            }
            file_.put(group + "/" + column.name, numbers);
        }
    }
    void commit() { file_.commit(); }

private:
    StoreWriter file_;
};

/// What an older program did not write stays as it is: whole arrays and texts; a file that is
/// damaged is refused when it is opened.
class ResultReader {
public:
    ResultReader(const std::string& path, Hdf5Thread& thread) : file_(path, thread) {
        file_.require_format(kResultFormat);
    }

    template <class T>
    void value(const std::string& group, const std::string& name, T& field) {
        if constexpr (std::is_same_v<T, std::string>) {
            field = file_.attribute<std::string>(group, name);
        } else {
            from_stored(file_.attribute<Stored<T>>(group, name), field);
        }
    }
    template <class T>
    void value(const std::string& group, const std::string& name, std::optional<T>& field) {
        field.reset();
        if (file_.has_attribute(group, name)) {
            value(group, name, field.emplace());
        }
    }
    template <class T>
    void array(const std::string& path, std::vector<T>& numbers) {
        if (file_.contains(path)) {
            numbers = file_.get<T>(path);
        }
    }
    template <class Row, class Get>
    void column(const std::string& group, std::vector<Row>& rows, const Named<Get>& column) {
        using Field = std::remove_cvref_t<std::invoke_result_t<Get, Row&>>;
        const std::string path = group + "/" + column.name;
        if constexpr (Text<Field>) {
            if (file_.has_attribute(group, column.name)) {
                const auto lines = split(file_.attribute<std::string>(group, column.name), '\n');
                fill(rows, lines, group + "@" + column.name, [&column](auto& line, Row& row) {
                    from_line(line, std::invoke(column.get, row));
                });
            }
        } else if (file_.contains(path)) {
            fill(rows, file_.get<Stored<Field>>(path), path, [&](auto number, Row& row) {
                if constexpr (std::is_enum_v<Field>) {
                    require_known(path, number, static_cast<std::int64_t>(last_of(Field())));
                }
                from_stored(number, std::invoke(column.get, row));
            });
        }
    }

private:
    void require_known(const std::string& path, std::int64_t kind, std::int64_t last) const {
        if (kind < 0 || kind > last) {
            fail<FileError>({.where = file_.path() + ":" + path,
                             .what = "an unknown kind",
                             .expected = fmt::format("0 to {}", last),
                             .got = std::to_string(kind)});
        }
    }
    /// The first column of a table says how many rows it has.
    template <class Row, class T, class Take>
    void fill(std::vector<Row>& rows, const std::vector<T>& column, const std::string& name,
              const Take& take) const {
        if (rows.empty()) {
            rows.resize(column.size());
        }
        if (rows.size() != column.size()) {
            fail<FileError>(
                {.where = file_.path(),
                 .what = "a column of another length than the first of its table: " + name,
                 .expected = std::to_string(rows.size()),
                 .got = std::to_string(column.size())});
        }
        for (std::size_t i = 0; i < rows.size(); ++i) {
            take(column[i], rows[i]);
        }
    }

    StoreReader file_;
};

}  // namespace

void check_result_folder(const std::string& folder, bool overwrite) {
    check_output_folder(folder, {kResultFile}, {});
    const std::string file = (fs::path(folder) / kResultFile).string();
    std::error_code error;
    if (!overwrite && fs::exists(file, error)) {
        fail<UsageError>({.where = "--out " + folder,
                          .what = "holds the result of another run",
                          .got = file,
                          .hint = "--overwrite to replace it, or another folder"});
    }
}

void write_result(const std::string& folder, const SimulationResult& result) {
    make_own_folder(folder, FolderRule::kOwn);
    (void)remove_stale_temporaries(folder, kResultFile);
    Hdf5Thread thread;
    ResultWriter writer({(fs::path(folder) / kResultFile).string(), true, FolderRule::kOwn},
                        thread);
    result_fields(writer, result);
    writer.commit();
}

SimulationResult read_result(const std::string& file) {
    Hdf5Thread thread;
    ResultReader reader(file, thread);
    SimulationResult result;
    result_fields(reader, result);
    return result;
}

}  // namespace cohort
