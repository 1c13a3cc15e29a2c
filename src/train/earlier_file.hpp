#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// A resumed run records its own part; the file of the part before it becomes FILE.1, or the next
/// number. Nothing happens when there is none. @param what  for the log
/// Errors: FileError.
void keep_earlier(const std::string& file, std::string_view what);

}  // namespace cohort
