#pragma once

#include <cstdint>
#include <string>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// Whether a path still leads to this open file or folder: it has not been deleted, renamed or
/// replaced, nor has a folder above it. true, too, where the file system does not tell.
[[nodiscard]] bool is_at(const FileDescriptor& file, const std::string& path) noexcept;

/// Copies the first `bytes` of an open file to a new file at `path` when the path leads to nothing
/// any more; `file` becomes the new file, with its offset at the end. The folder must exist.
/// @return whether a new file was made  Errors: FileError, also when another file has the path now.
bool restore_file(FileDescriptor& file, const std::string& path, std::int64_t bytes);

}  // namespace cohort
