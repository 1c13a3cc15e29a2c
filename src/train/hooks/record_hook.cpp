#include "train/hooks/record_hook.hpp"

#include <filesystem>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Whether a file exists; true also for a link that leads nowhere.
bool is_there(const std::string& path) {
    std::error_code error;
    return fs::exists(fs::symlink_status(path, error));
}

void rename_to_next(const std::string& file) {
    int number = 1;
    while (is_there(file + "." + std::to_string(number))) {
        ++number;
    }
    const std::string name = file + "." + std::to_string(number);
    std::error_code error;
    fs::rename(file, name, error);
    if (error) {
        fail_errno(name, "cannot be made", error.value());
    }
    log_info("what {} held is now {}", file, name);
}

}  // namespace

void RecordHook::on_start(TrainControl& run) {
    const TrainOptions& options = run.options();
    const OutputFile file = check_record(option_, options.*path_of_, options);
    check_folder_of(file);
    path_ = file.path;
    keep_ = !options.overwrite;
}

const std::string& RecordHook::make_way() {
    if (std::exchange(keep_, false) && is_there(path_)) {
        rename_to_next(path_);
    }
    return path_;
}

/// At the end of a run other results remain to be saved: a full disk is logged, not thrown.
void RecordHook::save(const TrainControl& run) {
    if (path_.empty() || !any()) {
        return;
    }
    try {
        write(make_way(), run.options());
    } catch (const FileError& error) {
        log_error("{} was not saved: {}", what_, error.what());
    }
}

}  // namespace cohort
