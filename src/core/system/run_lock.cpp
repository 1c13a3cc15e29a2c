#include "core/system/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// The holder's text about itself.
std::string read_holder(int file) {
    std::array<char, 320> text{};
    const ssize_t bytes = pread(file, text.data(), text.size(), 0);
    return bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes))
                     : "a process that has not named itself yet";
}

/// Best effort: on a full disk the lock still holds, without a name.
void write_holder(int file) {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    const std::string text = fmt::format("process {} on {}", getpid(), host.data());
    if (ftruncate(file, 0) != 0 ||
        pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        log_warn("[run.lock] the holder's name could not be written");
    }
}

int try_lock(int file) {
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

}  // namespace

RunLock::RunLock(const std::string& out) {
    make_own_folder(out, FolderRule::kOwn);
    const std::string path = out + "/run.lock";
    file_ = FileDescriptor(open_in_place_or_fail(path, O_RDWR | O_CREAT));
    const int error = try_lock(file_.get());
    if (error == EWOULDBLOCK) {
        const std::string holder = read_holder(file_.get());
        fail<UsageError>({.where = "--out " + out,
                          .what = "another run writes here",
                          .got = holder,
                          .hint = "another folder, or stop that run first"});
    }
    if (error != 0) {
        log_warn("[{}] this file system has no locks ({}): nothing keeps other runs out", path,
                 errno_text(error));
    } else {
        write_holder(file_.get());
    }
}

}  // namespace cohort
