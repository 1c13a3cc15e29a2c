#include "core/system/kept_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

namespace cohort {

bool is_at(const FileDescriptor& file, const std::string& path) noexcept {
    struct stat open {};
    struct stat found {};
    if (::fstat(file.get(), &open) != 0 || ::stat(path.c_str(), &found) != 0) {
        return errno != ENOENT && errno != ENOTDIR;  // a file system that fails for a moment
    }
    return open.st_dev == found.st_dev && open.st_ino == found.st_ino;
}

bool restore_file(FileDescriptor& file, const std::string& path, std::int64_t bytes) {
    if (is_at(file, path)) {
        return false;
    }
    FileDescriptor anew(open_in_place(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND));
    if (!anew.valid()) {
        fail_errno(path, "was deleted or moved while the run writes it, and cannot be made anew",
                   errno);
    }
    std::array<char, 65536> piece{};
    for (std::int64_t at = 0; at < bytes;) {
        const auto most = std::min(bytes - at, static_cast<std::int64_t>(piece.size()));
        const ssize_t got = ::pread(file.get(), piece.data(), static_cast<std::size_t>(most), at);
        const int error =
            got <= 0 ? (got == 0 ? EIO : errno)
                     : write_all(anew.get(), {piece.data(), static_cast<std::size_t>(got)});
        if (error != 0) {
            ::unlink(path.c_str());
            fail_errno(path, "was deleted or moved, and cannot be written anew", error);
        }
        at += got;
    }
    file = std::move(anew);
    return true;
}

}  // namespace cohort
