#include "data/hdf5/file_watch.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

namespace {

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

}  // namespace cohort
