#include "train/run/control_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr mode_t kOwnerOnly = 0700;

[[noreturn]] void refuse_file(const std::string& path, std::string_view what,
                              std::string_view got) {
    fail<FileError>({.where = path, .what = what, .got = got});
}

int open_folder(const std::string& path, ControlFolder::Make make) {
    if (make == ControlFolder::Make::kYes && ::mkdir(path.c_str(), kOwnerOnly) != 0 &&
        errno != EEXIST) {
        refuse_file(path, "the folder cannot be made", errno_text(errno));
    }
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        if (errno == ENOENT) {
            fail<FileError>({.where = path,
                             .what = "no job listens there",
                             .hint = "the --out of a job that is running"});
        }
        refuse_file(path, "the folder cannot be opened", errno_text(errno));
    }
    struct stat facts {};
    const bool known = ::fstat(folder, &facts) == 0;
    if (!known || facts.st_uid != ::geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        ::close(folder);
        refuse_file(path, "requests there could be another user's",
                    fmt::format("owner {}, mode {:o}", facts.st_uid, facts.st_mode & 07777U));
    }
    return folder;
}

/// All of an open file that has no more than `limit` bytes.
ControlFolder::Content read_all(int file, std::size_t limit) {
    std::string text(limit + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t got = ::read(file, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return {.text = "", .refused = errno_text(errno)};
        }
        if (got == 0) {
            text.resize(size);
            return {.text = std::move(text), .refused = ""};
        }
        size += static_cast<std::size_t>(got);
    }
    return {.text = "", .refused = fmt::format("longer than {} bytes", limit)};
}

bool write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t put = ::write(file, text.data(), text.size());
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        text.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
}

}  // namespace

ControlFolder::ControlFolder(const std::string& path, Make make)
    : path_(path), folder_(open_folder(path, make)) {
}

ControlFolder::ControlFolder(ControlFolder&& other) noexcept
    : path_(std::move(other.path_)), folder_(std::exchange(other.folder_, -1)) {
}

ControlFolder::~ControlFolder() {
    if (folder_ >= 0) {
        ::close(folder_);
    }
}

std::optional<ControlFolder::Content> ControlFolder::read(const std::string& name,
                                                          std::size_t limit) const {
    // Not blocking: a pipe under this name may have no writer.
    const int file =
        ::openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file < 0) {
        return errno == ENOENT ? std::nullopt
                               : std::optional<Content>({.text = "", .refused = errno_text(errno)});
    }
    struct stat facts {};
    Content content;
    if (::fstat(file, &facts) != 0) {
        content.refused = errno_text(errno);
    } else if (!S_ISREG(facts.st_mode)) {
        content.refused = "not a regular file";
    } else if (facts.st_uid != ::geteuid()) {
        content.refused = fmt::format("it belongs to user {}", facts.st_uid);
    } else {
        content = read_all(file, limit);
    }
    ::close(file);
    return content;
}

void ControlFolder::put(const std::string& name, std::string_view text) const {
    const std::string temporary = ".part-" + name;
    const int file = ::openat(folder_, temporary.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        refuse_file(path_ + "/" + name, "cannot be written", errno_text(errno));
    }
    const bool written = write_all(file, text);
    const bool whole = ::close(file) == 0 && written;
    if (!whole || ::renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0) {
        const std::string reason = errno_text(errno);
        ::unlinkat(folder_, temporary.c_str(), 0);
        refuse_file(path_ + "/" + name, "cannot be written", reason);
    }
}

bool ControlFolder::remove(const std::string& name) const noexcept {
    return ::unlinkat(folder_, name.c_str(), 0) == 0 ||
           (errno == EISDIR && ::unlinkat(folder_, name.c_str(), AT_REMOVEDIR) == 0);
}

std::vector<std::string> ControlFolder::list(std::string_view prefix, std::size_t most) const {
    std::vector<std::string> names;
    const int own = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* entries = own < 0 ? nullptr : ::fdopendir(own);
    if (entries == nullptr) {
        if (own >= 0) {
            ::close(own);
        }
        return names;
    }
    while (names.size() < most) {
        const dirent* entry = ::readdir(entries);
        if (entry == nullptr) {
            break;
        }
        if (std::string_view(entry->d_name).starts_with(prefix)) {
            names.emplace_back(entry->d_name);
        }
    }
    ::closedir(entries);
    return names;
}

std::string random_token() {
    std::random_device device;
    std::string token;
    for (int word = 0; word < 4; ++word) {
        token += fmt::format("{:08x}", static_cast<std::uint32_t>(device()));
    }
    return token;
}

}  // namespace cohort
