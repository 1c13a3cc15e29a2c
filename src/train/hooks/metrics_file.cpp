#include "cohort/train/metrics_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "core/system/kept_file.hpp"

namespace cohort {

void append_line(const std::string& path, std::string_view line) noexcept {
    const int file = open_in_place(path.c_str(), O_WRONLY | O_APPEND);
    if (file < 0) {
        return;
    }
    const iovec pieces[] = {{const_cast<char*>(line.data()), line.size()},
                            {const_cast<char*>("\n"), 1}};
    static_cast<void>(::writev(file, pieces, 2) < 0);  // an error here cannot be reported any more
    ::close(file);
}

MetricsFile::MetricsFile(std::string path, std::int64_t keep_bytes)
    : path_(std::move(path)), file_(open_in_place_or_fail(path_, O_RDWR | O_CREAT | O_APPEND)) {
    struct stat facts {};
    if (fstat(file_.get(), &facts) != 0) {
        fail_errno(path_, "cannot be opened for writing", errno);
    }
    position_ = std::min(keep_bytes, static_cast<std::int64_t>(facts.st_size));
    if (ftruncate(file_.get(), position_) != 0 ||
        lseek(file_.get(), position_, SEEK_SET) != position_) {
        fail_errno(path_, "cannot be cut to length", errno);
    }
}

bool MetricsFile::restore() {
    return restore_file(file_, path_, position_);
}

void MetricsFile::write(std::string_view json) {
    std::string line(json);
    line += '\n';
    if (const int error = write_all(file_.get(), line); error != 0) {
        report(error);
    } else {
        position_ += static_cast<std::int64_t>(line.size());
    }
    if (reader_) {
        reader_(json);
    }
}

/// Counts a lost line and removes its torn beginning.
void MetricsFile::report(int error) {
    ++failures_;
    const bool clean = ftruncate(file_.get(), position_) == 0 &&
                       lseek(file_.get(), position_, SEEK_SET) == position_;
    if (failures_ == 1) {
        log_error("[{}] a line could not be written: {}; training goes on{}", path_,
                  errno_text(error), clean ? "" : ", the file's last line is torn");
    }
}

}  // namespace cohort
