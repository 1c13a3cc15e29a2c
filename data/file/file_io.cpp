#include "data/file/file_io.hpp"

#include "cohort/core/error.hpp"
#include "data/file/stand_in.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

namespace cohort {

namespace {

std::string folder_of(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

/// Between a file's name and the process id in the temporary name `NAME.part-PID-COUNT`.
constexpr std::string_view kPart = ".part-";

/// The process id in a temporary name; 0 for any other name.
pid_t owner_of(std::string_view name) {
    const std::size_t at = name.rfind(kPart);
    pid_t owner = 0;
    int count = 0;
    if (at == std::string_view::npos) {
        return 0;
    }
    const char* last = name.data() + name.size();
    const auto [dash, bad] = std::from_chars(name.data() + at + kPart.size(), last, owner);
    if (bad != std::errc() || dash == last || *dash != '-') {
        return 0;
    }
    const auto [end, worse] = std::from_chars(dash + 1, last, count);
    return worse == std::errc() && end == last ? owner : 0;
}

/// Whether the process has the file open; true when that cannot be determined. Another process, or
/// this one, may have the id of one that was killed (in containers ids are small and alike).
bool has_open(pid_t process, const std::filesystem::path& file) {
    if (::kill(process, 0) != 0 && errno == ESRCH) {
        return false;
    }
    std::error_code error;
    const std::filesystem::directory_iterator open(fmt::format("/proc/{}/fd", process), error);
    if (error) {
        return true;
    }
    return std::any_of(begin(open), end(open), [&](const auto& entry) {
        std::error_code ignored;  // closed meanwhile, or no file
        return std::filesystem::equivalent(entry.path(), file, ignored);
    });
}

[[noreturn]] void fail_changed(std::string_view where, std::string_view how, std::string_view what,
                               const std::string& expected, const std::string& got) {
    const std::string text =
        fmt::format("the file {} while it was in use: {} cannot be trusted", how, what);
    fail<FileError>({.where = where,
                     .what = text,
                     .expected = expected,
                     .got = got,
                     .hint = "again with a file that nothing writes to"});
}

}  // namespace

struct stat file_status(const FileDescriptor& file, std::string_view path) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) {
        fail_errno(path, "cannot read the file's status", errno);
    }
    return status;
}

FileDescriptor open_readable(const std::string& path) {
    // Opening a pipe would wait for a writer.
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.valid()) {
        fail_errno(path, "cannot open for reading", errno);
    }
    const mode_t mode = file_status(file, path).st_mode;
    require_file(S_ISREG(mode), path, "cannot open for reading", "a regular file",
                 S_ISDIR(mode)    ? "a folder"
                 : S_ISFIFO(mode) ? "a pipe (FIFO)"
                                  : "a device");
    check_no_stand_in(file, path);
    return file;
}

std::uint64_t file_bytes(const FileDescriptor& file, std::string_view path) {
    return static_cast<std::uint64_t>(file_status(file, path).st_size);
}

std::uint64_t check_readable(const std::string& path) {
    return file_bytes(open_readable(path), path);
}

void read_at(const FileDescriptor& file, std::string_view path, std::uint64_t offset,
             std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t got =
            ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail_errno(path, fmt::format("reading at byte {} failed", offset), errno);
        }
        if (got == 0) {
            fail<FileError>({.where = path,
                             .what = "the file is too short",
                             .expected = fmt::format("{} more bytes", bytes.size()),
                             .got = fmt::format("its end at byte {}", offset)});
        }
        offset += static_cast<std::uint64_t>(got);
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

std::uint32_t file_crc32(const FileDescriptor& file, std::string_view path, std::uint64_t offset,
                         std::uint64_t end) {
    std::vector<std::byte> buffer(std::size_t{1} << 20U);
    std::uint32_t crc = 0;
    while (offset < end) {
        const auto part =
            static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - offset));
        const std::span<std::byte> bytes(buffer.data(), part);
        read_at(file, path, offset, bytes);
        crc = crc32_of(bytes, crc);
        offset += part;
    }
    return crc;
}

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t crc) {
    if (bytes.empty()) {  // zlib's crc32 begins a new sum at a null pointer
        return crc;
    }
    return static_cast<std::uint32_t>(
        ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

FileWatch::FileWatch(std::string path) : path_(std::move(path)), file_(open_readable(path_)) {
    const struct stat status = file_status(file_, path_);
    bytes_ = static_cast<std::uint64_t>(status.st_size);
    changed_ = status.st_mtim;
}

void FileWatch::check(std::string_view where, std::string_view what) const {
    const struct stat now = file_status(file_, path_);
    if (const auto bytes = static_cast<std::uint64_t>(now.st_size); bytes != bytes_) {
        fail_changed(where, bytes < bytes_ ? "was truncated" : "grew", what,
                     fmt::format("{} bytes", bytes_), fmt::format("{}", bytes));
    }
    if (now.st_mtim.tv_sec != changed_.tv_sec || now.st_mtim.tv_nsec != changed_.tv_nsec) {
        fail_changed(where, "was written to", what,
                     fmt::format("the last change at {}.{:09}", changed_.tv_sec, changed_.tv_nsec),
                     fmt::format("{}.{:09}", now.st_mtim.tv_sec, now.st_mtim.tv_nsec));
    }
    // Some network file systems give an open file another inode under its name: size and time tell.
    struct stat named {};
    const bool replaced =
        ::stat(path_.c_str(), &named) == 0 &&
        (named.st_dev != now.st_dev || named.st_ino != now.st_ino) &&
        (named.st_size != now.st_size || named.st_mtim.tv_sec != now.st_mtim.tv_sec ||
         named.st_mtim.tv_nsec != now.st_mtim.tv_nsec);
    if (replaced) {
        fail_changed(where, "was replaced by another", what, fmt::format("inode {}", now.st_ino),
                     fmt::format("inode {}", named.st_ino));
    }
}

AtomicFile::AtomicFile(OutputFile file)
    : target_(std::move(file)),
      name_(std::filesystem::path(target_.path).filename().string()),
      folder_(folder_of(target_.path), target_.folder, target_.path) {
    check_target();
    for (int attempt = 0; !file_.valid(); ++attempt) {
        temporary_name_ = fmt::format("{}{}{}-{}", name_, kPart, ::getpid(), attempt);
        file_ = FileDescriptor(::openat(folder_.get(), temporary_name_.c_str(),
                                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
        if (!file_.valid() && errno != EEXIST) {
            fail_errno(path(), "cannot create a file in " + folder_of(path()), errno);
        }
    }
}

AtomicFile::~AtomicFile() {
    if (!committed_ && file_.valid()) {
        static_cast<void>(folder_.remove(temporary_name_));
    }
}

std::string AtomicFile::temporary() const {
    std::string open = fmt::format("/proc/self/fd/{}", file_.get());
    return ::access(open.c_str(), F_OK) == 0 ? open : folder_of(path()) + "/" + temporary_name_;
}

/// Checks that an existing file of this name may be replaced.
void AtomicFile::check_target() const {
    struct stat facts {};
    if (::fstatat(folder_.get(), name_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    require_file(S_ISREG(facts.st_mode) || S_ISLNK(facts.st_mode), path(), "cannot write the file",
                 "the name of a regular file or a new one",
                 S_ISDIR(facts.st_mode) ? "an existing folder" : "a pipe or device");
    if (!target_.replace) {
        fail_holds_already(path());
    }
}

/// Checks that the temporary file was not replaced by another user of the folder.
void AtomicFile::check_temporary() const {
    struct stat own {};
    struct stat named {};
    if (::fstat(file_.get(), &own) != 0 ||
        ::fstatat(folder_.get(), temporary_name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        own.st_dev != named.st_dev || own.st_ino != named.st_ino) {
        fail<FileError>({.where = path(),
                         .what = "its temporary file was removed or replaced while it was written",
                         .got = temporary_name_});
    }
}

/// Returns 0 or errno.
int AtomicFile::give_name() const {
    if (target_.replace) {
        return folder_.rename(temporary_name_, name_);
    }
    if (::renameat2(folder_.get(), temporary_name_.c_str(), folder_.get(), name_.c_str(),
                    RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
    check_target();  // the file system cannot do both in one step
    return folder_.rename(temporary_name_, name_);
}

std::vector<std::string> remove_stale_temporaries(const std::string& folder,
                                                  std::string_view name) {
    std::vector<std::string> removed;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string file = entry.path().filename().string();
        const pid_t owner = owner_of(file);
        if (owner > 0 && file.starts_with(name) && !has_open(owner, entry.path()) &&
            std::filesystem::remove(entry.path(), error)) {
            removed.push_back(file);
        }
    }
    return removed;
}

void AtomicFile::reserve(std::uint64_t end) {
    const std::uint64_t length = file_bytes(file_, path());
    if (end <= length) {
        return;
    }
    int error = EINTR;
    while (error == EINTR) {
        const int result = ::fallocate(file_.get(), 0, static_cast<off_t>(length),
                                       static_cast<off_t>(end - length));
        error = result == 0 ? 0 : errno;
    }
    if (error == EOPNOTSUPP) {  // then only the free space can be checked
        struct statvfs facts {};
        const bool known = ::fstatvfs(file_.get(), &facts) == 0;
        error = known && facts.f_bavail * facts.f_frsize < end - length ? ENOSPC : 0;
    }
    if (error != 0) {
        fail_errno(path(), fmt::format("cannot reserve {} bytes on the disk", end), error);
    }
}

void AtomicFile::truncate(std::uint64_t bytes) {
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) {
        fail_errno(path(), "cannot set the file's length", errno);
    }
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t put =
            ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            fail_errno(path(), fmt::format("writing at byte {} failed", offset), errno);
        }
        offset += static_cast<std::uint64_t>(put);
        bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
}

void AtomicFile::commit(FileLife life) {
    if (life == FileLife::kKept && ::fsync(file_.get()) != 0) {
        fail_errno(path(), "cannot make the file durable (fsync)", errno);
    }
    check_target();
    check_temporary();
    if (const int error = give_name(); error == EEXIST) {
        fail_holds_already(path());
    } else if (error != 0) {
        fail_errno(path(), "cannot give the file its name", error);
    }
    committed_ = true;
    if (life == FileLife::kRenewed) {
        return;
    }
    const FileDescriptor folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Some file systems cannot sync folders (EINVAL); a folder without read permission cannot be
    // opened. The rename has happened either way.
    if (folder.valid() && ::fsync(folder.get()) != 0 && errno != EINVAL) {
        fail_errno(path(), "cannot make the file's name durable (fsync of the folder)", errno);
    }
}

}  // namespace cohort
