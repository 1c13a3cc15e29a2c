#pragma once

#include <functional>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// An open file that processes forked from this one do not share; there its number stands for
/// /dev/null. For files with locks (flock): the system gives such a lock back when the last process
/// that shares the file closes it or ends, so a data loader's forked worker would keep the lock of
/// a job that has ended, or of a rank that was killed.
class UnforkedFile {
public:
    UnforkedFile() = default;
    /// @param open  opens the file, no process is forked meanwhile; it may throw, or give an
    ///              invalid one
    explicit UnforkedFile(const std::function<FileDescriptor()>& open);
    UnforkedFile(UnforkedFile&&) noexcept = default;
    UnforkedFile& operator=(UnforkedFile&&) noexcept = default;
    ~UnforkedFile();  ///< gives the lock back, too

    [[nodiscard]] const FileDescriptor& file() const noexcept { return file_; }
    [[nodiscard]] int get() const noexcept { return file_.get(); }
    [[nodiscard]] bool valid() const noexcept { return file_.valid(); }

private:
    FileDescriptor file_;
};

}  // namespace cohort
