#include "layers/tuning.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// "CHOICE KEY"; a line that is cut short or foreign is passed over.
void read_line(const std::string& line, std::map<std::string, int>& choices) {
    int choice = -1;
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data(), end, choice);
    if (error == std::errc{} && choice >= 0 && stop != end && *stop == ' ') {
        choices[std::string(stop + 1, end)] = choice;
    }
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
    std::ifstream in(file_);
    std::string line;
    while (!file_.empty() && std::getline(in, line)) {
        read_line(line, choices_);
    }
}

void TuningCache::remember(const std::string& key, int choice) {
    choices_[key] = choice;
    if (!file_.empty() && !append(file_, std::to_string(choice) + " " + key + "\n")) {
        log_warn("{} cannot be written ({}): choices by measurement are made anew next time", file_,
                 errno_text(errno));
        file_.clear();
    }
}

std::shared_ptr<TuningCache> make_tuning_cache(const std::string& file) {
    return std::make_shared<TuningCache>(file);
}

}  // namespace cohort
