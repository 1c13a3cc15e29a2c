#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cohort/core/file_descriptor.hpp"
#include "records/run/run_log.hpp"
#include "train/live/run_view.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {

/// Watches the output folder of a training job, on whatever host: reads files alone and changes
/// none. Of a metrics.jsonl that is longer than kTail it reads the first line and the last kTail
/// bytes, afterwards what is added.
class RunFollower {
public:
    static constexpr std::int64_t kTail = std::int64_t{16} << 20;

    /// Errors: FileError when the folder is missing or holds no run.
    explicit RunFollower(const std::string& out);

    /// Reads what is new. The view is valid until the next call. Errors: FileError for a file that
    /// cannot be read, or a line that `cohort train` does not write.
    [[nodiscard]] const RunView& look();

private:
    void read_new();
    void start_over();
    /// Reads and reports the bytes [position_, end).
    void read_to(std::int64_t end);
    [[nodiscard]] bool is_continued(std::int64_t size) const;
    void judge_life();

    std::string out_;
    RunFolder folder_;
    FileDescriptor file_;
    std::int64_t position_ = 0;  ///< bytes that were read
    std::string last_bytes_;     ///< the newest of them: a file that was cut has others there
    std::unique_ptr<RunLogReader> reader_;
    std::unique_ptr<RunViewer> viewer_;
};

}  // namespace cohort
