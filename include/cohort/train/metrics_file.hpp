#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// Appends a line to a file in one write, for a process that is about to end. Errors are ignored.
void append_line(const std::string& path, std::string_view line) noexcept;

/// metrics.jsonl: one JSON object per line, each line complete when write() returns. A line that
/// cannot be written is logged as an error once, and `failures` counts it; training continues.
class MetricsFile {
public:
    /// Opens `path` for appending after cutting it at `keep_bytes` (its length at the checkpoint of
    /// a resumed run). Errors: FileError.
    MetricsFile(std::string path, std::int64_t keep_bytes);
    MetricsFile(const MetricsFile&) = delete;
    MetricsFile& operator=(const MetricsFile&) = delete;
    ~MetricsFile() = default;

    /// @param json one object without line breaks
    void write(std::string_view json);
    /// Every line that has been written is shown to this reader, too; one at most.
    void show_to(std::function<void(std::string_view json)> reader) { reader_ = std::move(reader); }
    /// Bytes of complete lines so far.
    [[nodiscard]] std::int64_t position() const noexcept { return position_; }
    [[nodiscard]] std::int64_t failures() const noexcept { return failures_; }
    /// Writes a new file with all lines so far when the old file was deleted or moved.
    /// @return whether a new file was written  Errors: FileError.
    bool restore();

private:
    void report(int error);

    std::string path_;
    FileDescriptor file_;
    std::function<void(std::string_view json)> reader_;
    std::int64_t position_ = 0;
    std::int64_t failures_ = 0;
};

}  // namespace cohort
