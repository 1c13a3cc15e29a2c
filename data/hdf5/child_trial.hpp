#pragma once

#include <functional>
#include <string>

namespace cohort {

/// Runs `action` in a child process, for a library that crashes on damaged files. What it throws
/// there is not told: the caller meets it again. Blocks.
/// Errors: FileError naming `where` when the child crashed, or took ten seconds of processor time.
/// A child that ended otherwise, or not within a minute, has shown nothing.
void try_in_child(const std::string& where, const std::function<void()>& action);

}  // namespace cohort
