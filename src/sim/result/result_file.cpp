#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>
#include <type_traits>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "data/hdf5/store.hpp"
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

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

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
    void maybe(const std::string& group, const std::string& name, const std::optional<T>& field) {
        if (field) {
            value(group, name, *field);
        }
    }
    template <class T>
    void array(const std::string& path, const std::vector<T>& numbers) {
        file_.put(path, numbers);
    }
    template <class Row, class Get>
    void column(const std::string& path, const std::vector<Row>& rows, const Get& get) {
        using Field = std::remove_cvref_t<decltype(get(rows.front()))>;
        std::vector<Stored<Field>> numbers;
        numbers.reserve(rows.size());
        for (const Row& row : rows) {
            numbers.push_back(to_stored(get(row)));
        }
        file_.put(path, numbers);
    }
    /// Every line ends with a line feed, so that an empty one is not lost.
    template <class Row, class Get>
    void texts(const std::string& group, const std::string& name, const std::vector<Row>& rows,
               const Get& get) {
        std::string text;
        for (const Row& row : rows) {
            std::string line = get(row);
            std::replace(line.begin(), line.end(), '\n', ' ');
            text += line + "\n";
        }
        file_.set(group, name, text);
    }
    template <class Row, class Put, class Take>
    void texts_of(const std::string& group, const std::string& name, const std::vector<Row>& rows,
                  const Put& put, const Take& /*take*/) {
        std::vector<std::string> lines;
        std::transform(rows.begin(), rows.end(), std::back_inserter(lines), put);
        texts(
            group, name, lines, [](const std::string& line) -> auto& { return line; });
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
    void maybe(const std::string& group, const std::string& name, std::optional<T>& field) {
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
    void column(const std::string& path, std::vector<Row>& rows, const Get& get) {
        using Field = std::remove_cvref_t<decltype(get(rows.front()))>;
        if (!file_.contains(path)) {
            return;
        }
        const auto numbers = file_.get<Stored<Field>>(path);
        fit(rows, numbers.size(), path);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            from_stored(numbers[i], get(rows[i]));
        }
    }
    template <class Row, class Get>
    void texts(const std::string& group, const std::string& name, std::vector<Row>& rows,
               const Get& get) {
        if (!file_.has_attribute(group, name)) {
            return;
        }
        const std::vector<std::string> lines = lines_of(file_.attribute<std::string>(group, name));
        fit(rows, lines.size(), group + "@" + name);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            get(rows[i]) = lines[i];
        }
    }
    template <class Row, class Put, class Take>
    void texts_of(const std::string& group, const std::string& name, std::vector<Row>& rows,
                  const Put& /*put*/, const Take& take) {
        std::vector<std::string> lines(rows.size());
        texts(
            group, name, lines, [](std::string & line) -> auto& { return line; });
        fit(rows, lines.size(), group + "@" + name);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            take(rows[i], lines[i]);
        }
    }

private:
    /// The first column of a table says how many rows it has.
    template <class Row>
    void fit(std::vector<Row>& rows, std::size_t count, const std::string& name) const {
        if (rows.empty()) {
            rows.resize(count);
        }
        if (rows.size() != count) {
            fail<FileError>(
                {.where = file_.path(),
                 .what = "a column of another length than the first of its table: " + name,
                 .expected = std::to_string(rows.size()),
                 .got = std::to_string(count)});
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
    for (const LaneSpan& span : result.lanes) {
        if (span.kind > LaneSpan::Kind::kLost) {
            fail<FileError>(
                {.where = file + ":/lanes/kind",
                 .what = "an unknown kind of work",
                 .expected = fmt::format("0 to {}", static_cast<int>(LaneSpan::Kind::kLost)),
                 .got = fmt::format("{}", static_cast<int>(span.kind))});
        }
    }
    return result;
}

}  // namespace cohort
