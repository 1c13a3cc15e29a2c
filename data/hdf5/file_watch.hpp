#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "data/hdf5/file_io.hpp"

namespace cohort {

/// Keeps a file open and detects that it changes while it is read. Data read before check() passes
/// are those of the file at the begin of the watch.
class FileWatch {
public:
    /// Errors: those of open_readable.
    explicit FileWatch(std::string path);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// FileError when the file has another length or time of change than at the beginning, or when
    /// its name has gone to another file. A file that was deleted passes: it can still be read.
    /// @param where file and data set  @param what was being read, e.g. "samples 0 to 255"
    void check(std::string_view where, std::string_view what) const;

private:
    std::string path_;
    FileDescriptor file_;
    std::uint64_t bytes_ = 0;
    std::timespec changed_{};
};

}  // namespace cohort
