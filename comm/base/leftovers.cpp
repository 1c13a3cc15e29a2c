// The kernel grants a write lease on a file only when no other process has it open or mapped, in
// whatever container. That is how a leftover is told from a file in use.
#include "comm/base/leftovers.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <ctime>
#include <regex>
#include <string>
#include <system_error>
#include <vector>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAge{10};

/// Of this kind (S_IFREG, S_IFDIR) and of this user, at least this old.
bool is_old(const fs::path& path, mode_t kind, std::chrono::seconds age) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind &&
           status.st_uid == ::geteuid() && std::time(nullptr) - status.st_mtime >= age.count();
}

/// A file of this user that a process has open or mapped, or of which that is not known.
bool is_used(const fs::path& file) {
    const FileDescriptor open(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    // A process that opens the file meanwhile sends a signal; this one is ignored by default.
    return !open.valid() || ::fcntl(open.get(), F_SETSIG, SIGURG) != 0 ||
           ::fcntl(open.get(), F_SETLEASE, F_WRLCK) != 0;
}

std::vector<fs::path> entries(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> found;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        found.push_back(at->path());
    }
    return found;
}

bool any_used(const fs::path& folder) {
    const std::vector<fs::path> inside = entries(folder);
    return std::ranges::any_of(inside, [](const fs::path& path) {
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0) {
            return true;
        }
        return S_ISDIR(status.st_mode) ? any_used(path) : S_ISREG(status.st_mode) && is_used(path);
    });
}

/// Whether this folder of mpirun or its daemon was old, unused and could be removed.
bool remove_unused_session(const fs::path& path, std::chrono::seconds age) {
    // Open for as long as mpirun or its daemon lives: no other file is touched before.
    const fs::path topology = path / "hwloc.sm";
    if (!is_old(path, S_IFDIR, age) || !is_old(topology, S_IFREG, age) || is_used(topology) ||
        any_used(path)) {
        return false;
    }
    std::error_code error;
    fs::remove_all(path, error);
    return !error;
}

}  // namespace

std::size_t remove_unused_segments(const fs::path& folder, std::chrono::seconds age) {
    struct statfs system {};
    if (::statfs(folder.c_str(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
        return 0;
    }
    const std::regex name("(vader|sm)_segment\\..+\\." + std::to_string(::geteuid()) +
                          "\\.[0-9a-f]+\\.[0-9]+");
    std::size_t removed = 0;
    for (const fs::path& path : entries(folder)) {
        if (std::regex_match(path.filename().string(), name) && is_old(path, S_IFREG, age) &&
            !is_used(path)) {
            removed += ::unlink(path.c_str()) == 0 ? 1 : 0;
        }
    }
    return removed;
}

std::size_t remove_unused_sessions(const fs::path& folder, std::chrono::seconds age) {
    const std::string user = std::to_string(::geteuid());
    const std::regex host("ompi\\..+\\." + user);  // of Open MPI 4, with a folder per job
    const std::regex job("(pid|jf)\\.[0-9]+");
    const std::regex session("(prterun|prted)\\..+\\.[0-9]+\\." + user);  // of Open MPI 5
    std::size_t removed = 0;
    for (const fs::path& path : entries(folder)) {
        const std::string name = path.filename().string();
        if (std::regex_match(name, session)) {
            removed += remove_unused_session(path, age) ? 1 : 0;
        } else if (std::regex_match(name, host)) {
            for (const fs::path& below : entries(path)) {
                removed += std::regex_match(below.filename().string(), job) &&
                                   remove_unused_session(below, age)
                               ? 1
                               : 0;
            }
        }
    }
    return removed;
}

std::size_t remove_leftovers() noexcept {
    try {
        return remove_unused_segments("/dev/shm", kAge) +
               remove_unused_sessions(fs::temp_directory_path(), kAge);
    } catch (const std::exception&) {
        return 0;  // a tidy host is no condition for a job
    }
}

}  // namespace cohort
