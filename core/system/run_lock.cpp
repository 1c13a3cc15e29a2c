#include "core/system/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "core/system/kept_file.hpp"

namespace cohort {
namespace {

UnforkedFile open_read_only(const std::string& path, int flags) {
    return UnforkedFile(
        [&] { return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)); });
}

/// The holder's text about itself; empty: it has not named itself yet.
std::string read_holder(int file) {
    std::array<char, 320> text{};
    const ssize_t bytes = pread(file, text.data(), text.size(), 0);
    return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
}

std::string host_name() {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return host.data();
}

/// Best effort: on a full disk the lock still holds, without a name.
void write_holder(int file) {
    const std::string text = fmt::format("process {} on {}", getpid(), host_name());
    if (ftruncate(file, 0) != 0 ||
        pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        log_warn("[run.lock] the holder's name could not be written");
    }
}

/// Returns 0 or errno. @param kind  LOCK_EX or LOCK_SH
int try_lock(int file, int kind) {
    while (flock(file, kind | LOCK_NB) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/// The lock of a run. Whoever looks at the lock (run_lock_state) holds it for an instant.
int lock_for_run(int file) {
    constexpr int kTries = 5;
    int error = EWOULDBLOCK;
    for (int i = 0; i < kTries && error == EWOULDBLOCK; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(i > 0 ? 10 : 0));
        error = try_lock(file, LOCK_EX);
    }
    return error;
}

std::string file_of(const std::string& out) {
    return out + "/run.lock";
}

[[noreturn]] void refuse(const std::string& out, const std::string& holder) {
    fail<UsageError>({.where = "--out " + out,
                      .what = "another run writes here",
                      .got = holder.empty() ? "a process that has not named itself yet" : holder,
                      .hint = "another folder, or stop that run first"});
}

}  // namespace

RunLock::RunLock(const std::string& out) : out_(out) {
    make_own_folder(out_, FolderRule::kOwn);
    lock_folder();
    lock_file();
}

/// NFS has no locks on folders.
void RunLock::lock_folder() {
    UnforkedFile folder = open_read_only(out_, O_DIRECTORY);
    if (folder.valid() && lock_for_run(folder.get()) == EWOULDBLOCK) {
        const UnforkedFile file = open_read_only(file_of(out_), O_NOFOLLOW);
        refuse(out_, file.valid() ? read_holder(file.get()) : std::string());
    }
    folder_ = std::move(folder);
}

void RunLock::lock_file() {
    const std::string path = file_of(out_);
    UnforkedFile file(
        [&] { return FileDescriptor(open_in_place_or_fail(path, O_RDWR | O_CREAT)); });
    const int error = lock_for_run(file.get());
    if (error == EWOULDBLOCK) {
        refuse(out_, read_holder(file.get()));
    }
    if (error != 0) {
        log_warn("[{}] this file system has no locks ({}): nothing keeps other runs out", path,
                 errno_text(error));
    } else {
        write_holder(file.get());
    }
    file_ = std::move(file);
}

bool RunLock::restore() {
    const bool moved =
        folder_.valid() ? !is_at(folder_.file(), out_) : ::access(out_.c_str(), F_OK) != 0;
    if (!moved && is_at(file_.file(), file_of(out_))) {
        return false;
    }
    try {
        make_own_folder(out_, FolderRule::kOwn);
        if (moved) {
            lock_folder();
        }
        lock_file();
    } catch (const UsageError& error) {
        throw FileError(
            fmt::format("the folder was deleted or moved in mid-run, and {}", error.what()));
    }
    return true;
}

RunLockState run_lock_state(const std::string& out) {
    const UnforkedFile file = open_read_only(file_of(out), O_NOFOLLOW | O_NONBLOCK);
    if (!file.valid()) {
        return {};
    }
    const std::string holder = read_holder(file.get());
    const int error = try_lock(file.get(), LOCK_SH);
    RunLockState state{.held = {}, .here = holder.ends_with(" on " + host_name())};
    // Where there are no locks nobody names itself.
    if (error == EWOULDBLOCK || (error == 0 && !holder.empty())) {
        state.held = error == EWOULDBLOCK;
    }
    return state;
}

}  // namespace cohort
