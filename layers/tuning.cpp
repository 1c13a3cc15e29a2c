#include "layers/tuning.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
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
    read_news();
}

void TuningCache::read_news() {
    std::ifstream in(file_, std::ios::binary);
    in.seekg(read_);
    std::string line;
    std::size_t damaged = 0;
    while (std::getline(in, line)) {
        damaged += read_line(line, choices_) ? 0 : 1;
        if (!in.eof()) {
            read_ += static_cast<std::streamoff>(line.size()) + 1;
        }
    }
    if (damaged > 0) {
        log_warn("{}: {} not a choice and a key: passed over", file_,
                 damaged == 1 ? "a line is" : std::to_string(damaged) + " lines are");
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
    if (!file_.empty() && !append(file_, name + " " + key + "\n")) {
        log_warn("{} cannot be written ({}): choices by measurement are made anew next time", file_,
                 errno_text(errno));
        file_.clear();
    }
}

MeasuringTurn::MeasuringTurn(TuningCache& cache, Clock::Seconds patience) {
    constexpr std::chrono::milliseconds kPause{5};
    if (cache.file_.empty() || !cache.patient_) {
        return;
    }
    const int descriptor = open(cache.file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    const SteadyClock clock;
    const Clock::Seconds start = clock.now();
    while (descriptor >= 0 && cache.patient_) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
            descriptor_ = descriptor;
            cache.read_news();
            return;
        }
        cache.patient_ = (errno == EWOULDBLOCK || errno == EINTR) && clock.now() - start < patience;
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
