#pragma once

#include <sys/stat.h>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/file_descriptor.hpp"
#include "cohort/core/output.hpp"

namespace cohort {

/// Result of fstat. Errors: FileError naming `path`.
[[nodiscard]] struct stat file_status(const FileDescriptor& file, std::string_view path);
/// Opens a regular file for reading, or throws FileError with the reason, also for what lies in
/// place of a file that was not fetched; never waits, not for the writer of a pipe either.
[[nodiscard]] FileDescriptor open_readable(const std::string& path);
[[nodiscard]] std::uint64_t file_bytes(const FileDescriptor& file, std::string_view path);
/// open_readable and close again; the file's length.
std::uint64_t check_readable(const std::string& path);
/// Reads exactly bytes.size() bytes at `offset`, or throws FileError (a short file too).
void read_at(const FileDescriptor& file, std::string_view path, std::uint64_t offset,
             std::span<std::byte> bytes);
/// CRC-32 (zlib's) of bytes [offset, end) of the file.
[[nodiscard]] std::uint32_t file_crc32(const FileDescriptor& file, std::string_view path,
                                       std::uint64_t offset, std::uint64_t end);
/// Continues CRC-32 `crc` (0 to begin) over `bytes`, of any length.
[[nodiscard]] std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t crc = 0);

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

/// Whether a file must outlive a crash of the machine. kRenewed: it is replaced again and again,
/// and training does not wait for the disk.
enum class FileLife : std::uint8_t { kKept, kRenewed };

/// A file that gets its name only when complete: it is written under a temporary name in the same
/// folder, then synced and renamed. The destructor removes what was not committed. The folder is
/// held open and links in it are not followed: another user of the folder cannot redirect the file,
/// and only regular files are replaced.
class AtomicFile {
public:
    /// Creates the temporary file. Errors here and in commit(): FileError naming the path and the
    /// reason; UsageError when a file exists that must not be replaced.
    explicit AtomicFile(OutputFile file);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    [[nodiscard]] const std::string& path() const noexcept { return target_.path; }
    /// A path by which libraries reach the temporary file, whatever happens to its name.
    [[nodiscard]] std::string temporary() const;
    [[nodiscard]] const FileDescriptor& descriptor() const noexcept { return file_; }

    /// Makes sure that the first `end` bytes have room on the disk, so that HDF5, which cannot
    /// recover from a full disk, never meets one. Errors: FileError (disk full, quota, limit).
    void reserve(std::uint64_t end);
    /// Cuts the file to its true length.
    void truncate(std::uint64_t bytes);
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    /// Makes it durable and gives it its name: fsync, rename, fsync of the folder; kRenewed: gives
    /// it its name.
    void commit(FileLife life = FileLife::kKept);

private:
    void check_target() const;
    void check_temporary() const;
    [[nodiscard]] int give_name() const;

    OutputFile target_;
    std::string name_;  ///< within the folder
    std::string temporary_name_;
    OutputFolder folder_;
    FileDescriptor file_;
    bool committed_ = false;
};

/// Files are written under a temporary name and a process that is killed leaves it behind. Deletes
/// those in `folder` of files whose name starts with `name` and that no process has open any more.
/// Returns the names of the deleted files; files that cannot be deleted or checked stay.
std::vector<std::string> remove_stale_temporaries(const std::string& folder, std::string_view name);

}  // namespace cohort
