#pragma once

#include <functional>
#include <string>

namespace cohort {

/// Runs `action` in a child process, for a library that crashes on damaged files. Exceptions in the
/// child are ignored: the caller will get them itself. Blocks. Errors: FileError naming `where`
/// when the child crashed, or took ten seconds of processor time. A child that ended otherwise, or
/// not within a minute, counts as a success.
void try_in_child(const std::string& where, const std::function<void()>& action);

}  // namespace cohort
