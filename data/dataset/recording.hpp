#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// Measured times of workers by iteration: the delay of single iterations in addition to their
/// computing, whatever their batch. CSV with the header iteration,worker0_ms,worker1_ms,...
using RecordedTimes = std::vector<std::vector<double>>;  ///< by iteration and worker, seconds

/// Whether a text is a recording (its header begins with "iteration"), not a trace.
[[nodiscard]] bool is_recording(std::string_view text);
/// Errors: FileError naming `path`, line and field.
[[nodiscard]] RecordedTimes parse_recording(const std::string& path, std::string_view text);
/// A shipped recording, by name, else a file. Errors: UsageError naming `option` and the names when
/// there is no such file; FileError.
[[nodiscard]] RecordedTimes find_recording(const std::string& name_or_path,
                                           std::string_view option);

/// An endless recording for any number of workers. Worker i has column i modulo the columns; the
/// recording repeats from a row that is drawn, with another row for each further turn through the
/// columns. Pure.
class Replay {
public:
    /// @param seed  for the first rows
    Replay(RecordedTimes times, std::uint64_t seed);
    /// Delay of a worker's iteration that begins at this moment, counted in rows from the first,
    /// seconds.
    [[nodiscard]] double delay_s(int worker, std::uint64_t moment) const;

private:
    RecordedTimes times_;
    std::uint64_t seed_;
};

}  // namespace cohort
