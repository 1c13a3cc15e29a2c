#include "data/dataset/recording.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/core/rng.hpp"
#include "data/file/text_file.hpp"
#include "data/shipped/shipped_file.hpp"
#include "data/text/csv_text.hpp"

namespace cohort {
namespace {

constexpr std::string_view kIteration = "iteration";
constexpr std::string_view kHeader = "iteration,worker0_ms,worker1_ms,...";
constexpr double kMostMilliseconds = 3600e3;  // what --compute sleep:T may last, too
/// Random streams of first rows, apart from those of other patterns.
constexpr std::uint64_t kStreams = std::uint64_t{1} << 48;

std::string column_of(std::size_t worker) {
    return fmt::format("worker{}_ms", worker);
}

/// @return columns of workers
std::size_t check_header(const CsvPlace& place, std::string_view line) {
    const std::vector<std::string_view> columns = fields_of(line);
    bool good = columns.size() > 1 && columns.front() == kIteration;
    for (std::size_t i = 1; i < columns.size(); ++i) {
        good = good && columns[i] == column_of(i - 1);
    }
    require_file(good, place.text(), "not the header of a recording", kHeader,
                 fmt::format("'{}'", line));
    return columns.size() - 1;
}

/// Lines that are torn or mixed up show in the numbers of the iterations, which ascend.
/// @param before  the line before's; -1: there is none
std::int64_t iteration_of(const CsvPlace& place, std::string_view text, std::int64_t before) {
    const std::optional<std::int64_t> iteration = parsed<std::int64_t>(text);
    require_csv(iteration && *iteration > before, place, kIteration,
                fmt::format("a whole number, from {}", before + 1), text);
    return *iteration;
}

std::vector<double> times_of(const CsvPlace& place, const std::vector<std::string_view>& fields) {
    std::vector<double> times;
    for (std::size_t i = 1; i < fields.size(); ++i) {
        const std::optional<double> value = parsed<double>(fields[i]);
        require_csv(value && *value >= 0 && *value <= kMostMilliseconds, place, column_of(i - 1),
                    fmt::format("milliseconds, from 0 to {:.0f}", kMostMilliseconds), fields[i]);
        times.push_back(*value / 1000);
    }
    return times;
}

}  // namespace

bool is_recording(std::string_view text) {
    bool first = true;
    bool found = false;
    each_csv_line("", text, [&](const CsvPlace& /*place*/, std::string_view line) {
        found = first ? line.starts_with(kIteration) : found;
        first = false;
    });
    return found;
}

RecordedTimes parse_recording(const std::string& path, std::string_view text) {
    RecordedTimes times;
    std::size_t workers = 0;
    std::int64_t iteration = -1;
    each_csv_line(path, text, [&](const CsvPlace& place, std::string_view line) {
        if (workers == 0) {
            workers = check_header(place, line);
        } else {
            const std::vector<std::string_view> fields = fields_of(place, workers + 1, line);
            iteration = iteration_of(place, fields.front(), iteration);
            times.push_back(times_of(place, fields));
        }
    });
    require_file(!times.empty(), path, "the recording has no iteration",
                 std::string(kHeader) + " and a line per iteration", "");
    return times;
}

RecordedTimes find_recording(const std::string& name_or_path, std::string_view option) {
    const auto shipped = shipped_recordings();
    const auto found = std::ranges::find_if(
        shipped, [&](const ShippedFile& each) { return each.name == name_or_path; });
    if (found != shipped.end()) {
        return parse_recording("recording " + name_or_path, found->bytes);
    }
    std::error_code error;
    if (name_or_path.empty() || !std::filesystem::exists(name_or_path, error)) {
        std::vector<std::string_view> names;
        std::ranges::transform(shipped, std::back_inserter(names),
                               [](const ShippedFile& each) { return each.name; });
        fail<UsageError>({.where = option,
                          .what = "there is no such recording",
                          .expected = fmt::format("{}, or a file", fmt::join(names, ", ")),
                          .got = fmt::format("'{}'", name_or_path)});
    }
    return parse_recording(name_or_path, read_text_file(name_or_path));
}

Replay::Replay(RecordedTimes times, std::uint64_t seed) : times_(std::move(times)), seed_(seed) {
}

double Replay::delay_s(int worker, std::uint64_t moment) const {
    const std::size_t columns = times_.front().size();
    const auto index = static_cast<std::size_t>(worker);
    Rng random(seed_, RngPurpose::kPattern, kStreams + index / columns);
    const std::uint64_t first = random.next_below(static_cast<std::uint32_t>(times_.size()));
    return times_[(first + moment) % times_.size()][index % columns];
}

}  // namespace cohort
