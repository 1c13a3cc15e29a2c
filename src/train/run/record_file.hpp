#pragma once

#include <string>

#include "cohort/train/options.hpp"

namespace cohort {

/// A file that a run records, for --record-trace and --record-load. What is there stays until there
/// is something to replace it: only --overwrite replaces it, else it becomes FILE.1, or the next
/// number, as the part of the run before it was resumed does.
class RecordFile {
public:
    /// Errors: UsageError when the file is there and the run is to neither resume nor overwrite;
    /// FileError when it cannot be written.
    RecordFile(const std::string& option, const std::string& path, const TrainOptions& options);

    /// The path to write to: whatever was there is out of the way. Errors: FileError.
    [[nodiscard]] const std::string& make_room();

private:
    std::string path_;
    bool keep_;  ///< what is there before this run writes for the first time
};

}  // namespace cohort
