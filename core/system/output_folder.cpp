#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cohort/core/output.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

struct stat link_status(const std::string& path) {
    struct stat facts {};
    static_cast<void>(::lstat(path.c_str(), &facts));
    return facts;
}

/// Some file systems give every file the same owner (NFS with all_squash, FAT): the owner then does
/// not identify a user.
bool gives_all_files_to(int folder, uid_t owner) {
    FileDescriptor file;
    std::string name;
    for (int attempt = 0; !file.valid(); ++attempt) {
        name = fmt::format(".owner-{}-{}", ::getpid(), attempt);
        file = FileDescriptor(::openat(folder, name.c_str(),
                                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file.valid() && errno != EEXIST) {
            return false;
        }
    }
    struct stat facts {};
    const bool same = ::fstat(file.get(), &facts) == 0 && facts.st_uid == owner;
    ::unlinkat(folder, name.c_str(), 0);
    return same;
}

void check_owner(int folder, const std::string& path) {
    struct stat status {};
    if (::fstat(folder, &status) != 0) {
        fail_errno(path, "the folder's owner cannot be told", errno);
    }
    const FolderFacts facts{
        .owner = status.st_uid, .mode = status.st_mode, .user = ::geteuid(), .sudo = sudo_user()};
    require_file(trusted(facts) || gives_all_files_to(folder, facts.owner), path,
                 "the folder is another user's, who could exchange what is written there",
                 fmt::format("a folder of user {}", facts.user),
                 fmt::format("owner {}, mode {:o}", facts.owner, facts.mode & 07777U),
                 facts.user == 0 ? "another folder, chown, or chmod go-w" : "another folder");
}

std::string reason_of(int error) {
    switch (error) {
        case ELOOP: return "a link";
        case EMLINK: return "a file that has other names as well (hard links)";
        case ENXIO: return "a folder, pipe or device";
        default: return errno_text(error);
    }
}

/// 0, or the errno for which the file must not be written in place.
int refusal(const struct stat& facts) noexcept {
    if (S_ISLNK(facts.st_mode)) {
        return ELOOP;
    }
    if (!S_ISREG(facts.st_mode)) {
        return ENXIO;
    }
    return facts.st_nlink > 1 ? EMLINK : 0;
}

[[noreturn]] void fail_place(const std::string& path, const std::string& expected, int error) {
    fail<FileError>({.where = path,
                     .what = "cannot be written safely",
                     .expected = expected,
                     .got = reason_of(error),
                     .hint = error == EMLINK ? "a copy in its place (cp -p F F.new, mv F.new F)"
                                             : "removing it, or another folder"});
}

bool is_folder(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_directory(path, error);
}

/// Checks that the folder, or else the nearest existing folder above it, is writable.
void check_writable(const std::string& folder) {
    std::filesystem::path path = std::filesystem::absolute(folder);
    std::error_code error;
    while (!std::filesystem::exists(path, error) && !error && path.has_relative_path()) {
        path = path.parent_path();
    }
    const bool found = is_folder(path);
    if (!found || ::access(path.c_str(), W_OK | X_OK) != 0) {
        const std::string reason = found   ? errno_text(errno)
                                   : error ? error.message()
                                           : "not a folder";
        fail<FileError>({.where = folder,
                         .what = "results cannot be written there",
                         .expected = "a folder that exists or can be made",
                         .got = path.string() + ": " + reason});
    }
}

}  // namespace

void fail_errno(std::string_view where, std::string_view what, int error) {
    const std::string reason = errno_text(error);
    const ErrorText text{.where = where, .what = what, .got = reason};
    if (error == ENOSPC || error == EDQUOT) {
        fail<DiskFullError>(text);
    }
    fail<FileError>(text);
}

bool trusted(const FolderFacts& facts) noexcept {
    if (facts.owner == facts.user || facts.owner == 0) {
        return true;
    }
    return facts.user == 0 && (facts.owner == facts.sudo || (facts.mode & kOthersWrite) == 0);
}

OutputFolder::OutputFolder(const std::string& path, FolderRule rule, std::string_view where) {
    const int no_link = rule == FolderRule::kOwnReal ? O_NOFOLLOW : 0;
    folder_ = FileDescriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | no_link));
    if (!folder_.valid()) {
        const int error = errno;
        if (no_link != 0 && S_ISLNK(link_status(path).st_mode)) {
            fail_place(path, "a folder", ELOOP);
        }
        fail_errno(where.empty() ? path : where, "the folder " + path + " cannot be opened", error);
    }
    if (rule != FolderRule::kAny) {
        check_owner(get(), path);
    }
}

int OutputFolder::remove(const std::string& name) const noexcept {
    return ::unlinkat(get(), name.c_str(), 0) == 0 || errno == ENOENT ? 0 : errno;
}

int OutputFolder::rename(const std::string& from, const std::string& to) const noexcept {
    return ::renameat(get(), from.c_str(), get(), to.c_str()) == 0 ? 0 : errno;
}

void check_output_folder(const std::string& path, const std::vector<std::string>& files,
                         const std::vector<std::string>& folders) {
    check_writable(path);
    if (!is_folder(path)) {
        return;
    }
    const OutputFolder own(path, FolderRule::kOwn);
    const auto in_it = [&](const std::string& name) { return fmt::format("{}/{}", path, name); };
    struct stat facts {};
    for (const std::string& name : files) {
        if (::fstatat(own.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            !S_ISREG(facts.st_mode)) {
            fail_place(in_it(name), "a regular file or none", refusal(facts));
        }
    }
    for (const std::string& name : folders) {
        if (::fstatat(own.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
            const OutputFolder real(in_it(name), FolderRule::kOwnReal);
        }
    }
}

void make_own_folder(const std::string& path, FolderRule rule) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) {
        fail_errno(path, "the output folder cannot be made", error.value());
    }
    const OutputFolder folder(path, rule);
}

int write_all(int file, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t put = ::write(file, text.data(), text.size());
        if (put > 0) {
            text.remove_prefix(static_cast<std::size_t>(put));
        } else if (put == 0 || errno != EINTR) {
            return put == 0 ? ENOSPC : errno;
        }
    }
    return 0;
}

int open_in_place(const char* path, int flags) noexcept {
    struct stat facts {};
    // Before opening: a device may do something when it is opened.
    if (::lstat(path, &facts) == 0 && refusal(facts) != 0) {
        errno = refusal(facts);
        return -1;
    }
    const int file = ::open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (file < 0) {
        return -1;
    }
    const int error = ::fstat(file, &facts) != 0 ? errno : refusal(facts);
    if (error != 0) {
        ::close(file);
        errno = error;
        return -1;
    }
    return file;
}

int open_in_place_or_fail(const std::string& path, int flags) {
    const int file = open_in_place(path.c_str(), flags);
    if (file >= 0) {
        return file;
    }
    const int error = errno;
    if (error == ELOOP || error == EMLINK || error == ENXIO) {
        fail_place(path, "a regular file or none", error);
    }
    fail_errno(path, "cannot be opened for writing", error);
}

void require_no_link(const std::string& path) {
    const struct stat facts = link_status(path);
    require_file(facts.st_mode == 0 || S_ISREG(facts.st_mode), path, "is not read",
                 "a regular file", reason_of(refusal(facts)));
}

}  // namespace cohort
