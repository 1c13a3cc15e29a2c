#pragma once

#include <string>

#include "cohort/train/options.hpp"

namespace cohort {

/// A file that a run records, for --record-trace and --record-load. An older file stays until there
/// is a new one: --overwrite replaces it, otherwise it is renamed to FILE.1, or the next number,
/// like the recording of the part before a resume.
class RecordFile {
public:
    /// Errors: UsageError when the file exists without --resume or --overwrite;
    /// FileError when it cannot be written.
    RecordFile(const std::string& option, const std::string& path, const TrainOptions& options);

    /// The path to write to, after an older file was renamed or replaced. Errors: FileError.
    [[nodiscard]] const std::string& make_room();

private:
    std::string path_;
    bool keep_;  ///< an older file is kept under another name
};

}  // namespace cohort
