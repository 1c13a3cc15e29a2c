#pragma once

#include <string>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// Keeps other runs out of an output folder while it lives. The lock belongs to the open file
/// OUT/run.lock, so the system releases it however the process ends; the file stays and names its
/// last holder.
class RunLock {
public:
    /// Makes the folder when it is missing. Errors: FileError when that fails, when the folder is
    /// another user's, or run.lock is a link; UsageError naming the holder when another run holds
    /// the lock.
    explicit RunLock(const std::string& out);

private:
    FileDescriptor file_;
};

}  // namespace cohort
