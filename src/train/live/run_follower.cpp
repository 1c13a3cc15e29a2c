#include "train/live/run_follower.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/system/run_lock.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Bytes that are compared to see whether a file was cut and has grown again.
constexpr std::size_t kCompared = 64;
constexpr auto kLongestLine = static_cast<std::int64_t>(kMostLineBytes);

/// Bytes [begin, end) of a file, fewer when it ends before. Errors: FileError.
std::string bytes_of(const FileDescriptor& file, const std::string& path, std::int64_t begin,
                     std::int64_t end) {
    std::string bytes(static_cast<std::size_t>(end - begin), '\0');
    std::size_t have = 0;
    while (have < bytes.size()) {
        const ssize_t got = ::pread(file.get(), bytes.data() + have, bytes.size() - have,
                                    begin + static_cast<std::int64_t>(have));
        if (got < 0 && errno != EINTR) {
            fail_errno(path, "cannot be read", errno);
        }
        if (got == 0) {
            break;
        }
        have += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    bytes.resize(have);
    return bytes;
}

/// The exit code that the job left, and its reason.
std::optional<std::pair<int, std::string>> exit_code_of(const std::string& path) {
    std::ifstream file(path);
    int code = 0;
    std::string reason;
    if (!(file >> code) || !std::getline(file.ignore(1), reason)) {
        return std::nullopt;
    }
    return std::pair(code, reason);
}

/// Time since the last change of a file, for people.
std::string age_of(const std::string& path) {
    std::error_code error;
    const auto changed = fs::last_write_time(path, error);
    return error ? "an unknown time" : format_duration(fs::file_time_type::clock::now() - changed);
}

}  // namespace

RunFollower::RunFollower(const std::string& out) : out_(out), folder_(out) {
    std::error_code error;
    if (!fs::is_directory(out, error)) {
        fail<FileError>({.where = "--out " + out,
                         .what = "there is no such folder",
                         .expected = "the --out folder of a training job"});
    }
    if (!fs::exists(out + "/run.lock", error) && !fs::exists(folder_.metrics, error)) {
        fail<FileError>({.where = "--out " + out,
                         .what = "no training job has written there",
                         .hint = "the --out folder of cohort train"});
    }
    start_over();
}

const RunView& RunFollower::look() {
    read_new();
    judge_life();
    return viewer_->view();
}

void RunFollower::start_over() {
    file_ = FileDescriptor();
    position_ = 0;
    last_bytes_.clear();
    reader_ = std::make_unique<RunLogReader>(folder_.metrics);
    viewer_ = std::make_unique<RunViewer>(out_);
    viewer_->set_life("starting", "waiting for " + folder_.metrics, false);
}

/// Whether the open file is still that of this name, and what was read of it is still there.
bool RunFollower::is_continued(std::int64_t size) const {
    struct stat named {};
    struct stat own {};
    return ::stat(folder_.metrics.c_str(), &named) == 0 && ::fstat(file_.get(), &own) == 0 &&
           named.st_dev == own.st_dev && named.st_ino == own.st_ino && size >= position_ &&
           bytes_of(file_, folder_.metrics,
                    position_ - static_cast<std::int64_t>(last_bytes_.size()),
                    position_) == last_bytes_;
}

void RunFollower::read_new() {
    struct stat facts {};
    if (file_.valid() && (::fstat(file_.get(), &facts) != 0 || !is_continued(facts.st_size))) {
        start_over();
    }
    if (!file_.valid()) {
        file_ = FileDescriptor(
            ::open(folder_.metrics.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!file_.valid() && errno != ENOENT) {
            fail_errno(folder_.metrics, "cannot be opened", errno);
        }
        if (!file_.valid() || ::fstat(file_.get(), &facts) != 0) {
            return;
        }
        if (facts.st_size > kTail) {
            const std::string begin = bytes_of(file_, folder_.metrics, 0, kLongestLine);
            reader_->feed(begin.substr(0, begin.find('\n') + 1), *viewer_);
            const std::int64_t tail = facts.st_size - kTail;
            const std::string part = bytes_of(file_, folder_.metrics, tail, tail + kLongestLine);
            position_ = tail + static_cast<std::int64_t>(part.find('\n') + 1);
            reader_->skip();
        }
    }
    read_to(facts.st_size);
}

void RunFollower::read_to(std::int64_t end) {
    if (end <= position_) {
        return;
    }
    const std::string bytes = bytes_of(file_, folder_.metrics, position_, end);
    reader_->feed(bytes, *viewer_);
    position_ += static_cast<std::int64_t>(bytes.size());
    const std::string all = last_bytes_ + bytes;
    last_bytes_ = all.substr(all.size() - std::min(all.size(), kCompared));
}

void RunFollower::judge_life() {
    if (const auto end = exit_code_of(folder_.exit_code)) {
        const bool told = viewer_->view().over;
        if (!told || (end->first != 0 && end->first != static_cast<int>(ExitCode::kRequeue))) {
            viewer_->set_life(end->first == 0 ? "done" : "failed",
                              fmt::format("exit code {}: {}", end->first, end->second), true);
        }
        return;
    }
    if (viewer_->view().over) {
        return;
    }
    const RunLockState lock = run_lock_state(out_);
    if (lock.held.value_or(true)) {
        return;
    }
    const bool begun = position_ > 0;
    const std::string silence = "the last line is " + age_of(folder_.metrics) + " old";
    if (lock.here) {
        viewer_->set_life("gone",
                          begun ? "it ended without a word (killed?); " + silence
                                : "it ended before it began to train",
                          true);
    } else {
        viewer_->set_life("running?",
                          begun ? "no lock on the folder is seen from this host; " + silence
                                : "no lock on the folder is seen from this host",
                          false);
    }
}

}  // namespace cohort
