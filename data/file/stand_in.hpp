#pragma once

#include <string>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// Refuses what lies under a file's name when the file itself was not fetched: a pointer of Git LFS
/// or git-annex; a web page or an XML answer of a server, unless the name says that it is one.
/// Errors: FileError saying what it is.
void check_no_stand_in(const FileDescriptor& file, const std::string& path);

}  // namespace cohort
