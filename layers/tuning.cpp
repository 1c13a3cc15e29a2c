#include "layers/tuning.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// "CHOICE KEY"; false for a line that is cut short or foreign.
bool read_line(const std::string& line, std::map<std::string, std::string>& choices) {
    const std::size_t space = line.find(' ');
    if (space == 0 || space == std::string::npos || space + 1 == line.size()) {
        return false;
    }
    choices[line.substr(space + 1)] = line.substr(0, space);
    return true;
}

/// One write, at the end of the file. False: errno says why.
bool append(const std::string& file, const std::string& line) {
    const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        return false;
    }
    const ssize_t written = write(descriptor, line.data(), line.size());
    const int error = written < 0 ? errno : ENOSPC;
    close(descriptor);
    errno = error;
    return written == static_cast<ssize_t>(line.size());
}

}  // namespace

TuningCache::TuningCache(std::string file) : file_(std::move(file)) {
    if (const std::size_t damaged = read_file(); damaged > 0) {
        log_warn("{}: {} not a choice and a key: passed over", file_,
                 damaged == 1 ? "a line is" : std::to_string(damaged) + " lines are");
    }
}

std::size_t TuningCache::read_file() {
    std::ifstream in(file_);
    std::string line;
    std::size_t damaged = 0;
    cut_ = false;
    while (std::getline(in, line)) {
        cut_ = in.eof();  // the key of such a line may lack its rest, and be another operation's
        damaged += cut_ || line.empty() || read_line(line, choices_) ? 0 : 1;
    }
    return damaged;
}

void TuningCache::read_news() {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file_, error);
    if (!error && std::exchange(size_, size) != size) {
        read_file();
    }
}

int TuningCache::find(const std::string& key) const {
    const std::string name = find_name(key);
    int choice = -1;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), choice);
    return error == std::errc{} && choice >= 0 && stop == name.data() + name.size() ? choice : -1;
}

void TuningCache::remember_name(const std::string& key, const std::string& name) {
    choices_[key] = name;
    // A line that was cut short gets an end with which its key is that of no operation.
    const char* const end = std::exchange(cut_, false) ? " (cut)\n" : "";
    if (!file_.empty() && !append(file_, end + name + " " + key + "\n")) {
        log_warn("{} cannot be written ({}): choices by measurement are made anew next time", file_,
                 errno_text(errno));
        file_.clear();
    }
}

MeasuringTurn::MeasuringTurn(TuningCache& cache, const std::string& key, Clock::Seconds patience) {
    constexpr std::chrono::milliseconds kPause{20};
    if (cache.file_.empty()) {
        return;
    }
    const SteadyClock clock;
    const Clock::Seconds start = clock.now() - cache.waited_;
    const std::string known = cache.find_name(key);
    UnforkedFile file([&] {
        return FileDescriptor(open(cache.file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    });
    for (;;) {
        const bool locked = file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0;
        const bool lockable = file.valid() && (errno == EWOULDBLOCK || errno == EINTR);
        cache.read_news();
        if (locked) {
            file_ = std::move(file);
            return;
        }
        if (!lockable || cache.find_name(key) != known || cache.waited_ >= patience) {
            break;
        }
        std::this_thread::sleep_for(kPause);
        cache.waited_ = clock.now() - start;
        if (cache.waited_ >= patience) {
            log_info(
                "{}: waited {:.0f} s for another process that measures, now measures beside it",
                cache.file_, patience.count());
        }
    }
}

std::shared_ptr<TuningCache> make_tuning_cache(const std::string& file) {
    return std::make_shared<TuningCache>(file);
}

}  // namespace cohort
