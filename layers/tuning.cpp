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
    const int error = errno;
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
        damaged += line.empty() || read_line(line, choices_) ? 0 : 1;
        cut_ = in.eof();
    }
    return damaged;
}

bool TuningCache::read_news() {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file_, error);
    if (error || std::exchange(size_, size) == size) {
        return false;
    }
    read_file();
    return true;
}

int TuningCache::find(const std::string& key) const {
    const std::string name = find_name(key);
    int choice = -1;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), choice);
    return error == std::errc{} && choice >= 0 && stop == name.data() + name.size() ? choice : -1;
}

void TuningCache::remember_name(const std::string& key, const std::string& name) {
    choices_[key] = name;
    const char* const end = std::exchange(cut_, false) ? "\n" : "";
    if (!file_.empty() && !append(file_, end + name + " " + key + "\n")) {
        log_warn("{} cannot be written ({}): choices by measurement are made anew next time", file_,
                 errno_text(errno));
        file_.clear();
    }
}

MeasuringTurn::MeasuringTurn(TuningCache& cache, const std::string& key, Clock::Seconds patience) {
    constexpr std::chrono::milliseconds kPause{5};
    if (cache.file_.empty()) {
        return;
    }
    const SteadyClock clock;
    Clock::Seconds seen = clock.now();  // when the file grew last
    const int descriptor = open(cache.file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    for (;;) {
        const bool locked = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
        const bool lockable = descriptor >= 0 && (errno == EWOULDBLOCK || errno == EINTR);
        if (cache.read_news()) {
            seen = clock.now();
        }
        if (locked) {
            descriptor_ = descriptor;
            return;
        }
        if (!lockable || !cache.patient_ || !cache.find_name(key).empty()) {
            break;
        }
        if (clock.now() - seen >= patience) {
            cache.patient_ = false;
            log_warn("{}: another process has the lock for {:.0f} s: not waited for any more",
                     cache.file_, patience.count());
            break;
        }
        std::this_thread::sleep_for(kPause);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
}

MeasuringTurn::~MeasuringTurn() {
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

std::shared_ptr<TuningCache> make_tuning_cache(const std::string& file) {
    return std::make_shared<TuningCache>(file);
}

}  // namespace cohort
