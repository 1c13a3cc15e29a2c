// The kernel grants a write lease on a file only when nobody else has it open or mapped, in
// whatever container. That is how a leftover is told from a file in use.
#include "leftovers.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <regex>
#include <string>
#include <system_error>
#include <vector>

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAge{10};
/// Of /proc/self/ns/pid where all processes of the kernel can be seen (PROC_PID_INIT_INO).
constexpr ino_t kFirstProcessSpace = 0xEFFFFFFC;

bool is_old(const struct stat& status, std::chrono::seconds age) {
    return std::time(nullptr) - status.st_mtime >= age.count();
}

/// A file of this user that somebody has open or mapped, or of which that is not known.
bool is_used(const fs::path& file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) {
        return true;
    }
    // Who opens the file meanwhile sends a signal; this one is ignored unless asked for.
    const bool free =
        ::fcntl(descriptor, F_SETSIG, SIGURG) == 0 && ::fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0;
    ::close(descriptor);
    return !free;
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
    return std::any_of(inside.begin(), inside.end(), [](const fs::path& path) {
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0) {
            return true;
        }
        return S_ISDIR(status.st_mode) ? any_used(path) : S_ISREG(status.st_mode) && is_used(path);
    });
}

/// As Open MPI writes it: without a domain, except in addresses.
std::string host_name() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    const std::string text = name.data();
    const bool address = text.find_first_not_of("0123456789.") == std::string::npos;
    return address ? text : text.substr(0, text.find('.'));
}

}  // namespace

std::size_t remove_unused_segments(const fs::path& folder, std::chrono::seconds age) {
    struct statfs system {};
    if (::statfs(folder.c_str(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
        return 0;
    }
    const std::regex name("vader_segment\\..+\\." + std::to_string(::geteuid()) +
                          "\\.[0-9a-f]+\\.[0-9]+");
    std::size_t removed = 0;
    for (const fs::path& path : entries(folder)) {
        struct stat status {};
        if (std::regex_match(path.filename().string(), name) &&
            ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
            status.st_uid == ::geteuid() && is_old(status, age) && !is_used(path)) {
            removed += ::unlink(path.c_str()) == 0 ? 1 : 0;
        }
    }
    return removed;
}

std::size_t remove_unused_sessions(const fs::path& folder, std::chrono::seconds age) {
    struct stat space {};
    if (::stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != kFirstProcessSpace) {
        return 0;
    }
    const std::regex name("pid\\.([1-9][0-9]{0,8})");
    std::size_t removed = 0;
    for (const fs::path& path : entries(folder)) {
        struct stat status {};
        std::smatch parts;
        const std::string text = path.filename().string();
        if (!std::regex_match(text, parts, name) || ::lstat(path.c_str(), &status) != 0 ||
            !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || !is_old(status, age)) {
            continue;
        }
        const bool ended = ::kill(std::stoi(parts[1]), 0) != 0 && errno == ESRCH;
        if (ended && !any_used(path)) {
            std::error_code error;
            fs::remove_all(path, error);
            removed += error ? 0 : 1;
        }
    }
    return removed;
}

std::size_t remove_leftovers() noexcept {
    try {
        const fs::path sessions =
            fs::temp_directory_path() / ("ompi." + host_name() + "." + std::to_string(::geteuid()));
        return remove_unused_segments("/dev/shm", kAge) + remove_unused_sessions(sessions, kAge);
    } catch (const std::exception&) {
        return 0;  // a tidy host is no condition for a job
    }
}

}  // namespace cohort
