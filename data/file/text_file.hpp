#pragma once

#include <string>
#include <string_view>

#include "cohort/core/output.hpp"
#include "data/file/file_io.hpp"

namespace cohort {

/// Replaces a file by this text at once or not at all: a temporary file in the same folder, synced
/// (kKept) and renamed. Errors: FileError naming path and reason (disk full, read-only folder ...);
/// UsageError when a file exists that must not be replaced.
void replace_text_file(const OutputFile& file, std::string_view text,
                       FileLife life = FileLife::kKept);

/// All of a regular file of at most 1 GiB. Errors: FileError naming path and reason, at once for a
/// pipe or device.
[[nodiscard]] std::string read_text_file(const std::string& path);

}  // namespace cohort
