#pragma once

#include <optional>
#include <string>

#include "core/system/unforked_file.hpp"

namespace cohort {

/// Keeps other runs out of an output folder while it lives. The lock belongs to the open file
/// OUT/run.lock, so the system releases it however the process ends, also when processes forked
/// from it live on; the file stays and names its last holder. Where the file system can lock
/// folders OUT itself is locked too, so other runs stay out when run.lock is deleted.
class RunLock {
public:
    /// Makes the folder when it is missing. Errors: FileError when that fails, when the folder is
    /// another user's, or run.lock is a link; UsageError naming the holder when another run holds
    /// the lock.
    explicit RunLock(const std::string& out);

    /// Makes and locks a new folder and lock file when the old ones were deleted or moved.
    /// @return whether they were  Errors: FileError, also when another run has the folder now.
    bool restore();

private:
    void lock_folder();
    void lock_file();

    std::string out_;
    UnforkedFile folder_;
    UnforkedFile file_;
};

/// How the lock on an output folder stands.
struct RunLockState {
    std::optional<bool> held;  ///< none: the file system has no locks, or there is no lock file
    bool here = false;         ///< the last holder ran on this host, where `held` is certain
};
/// Looks at the lock of OUT without keeping it. Some file systems show locks to the host of their
/// holder alone.
[[nodiscard]] RunLockState run_lock_state(const std::string& out);

}  // namespace cohort
