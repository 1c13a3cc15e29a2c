#include "train/run/record_file.hpp"

#include <filesystem>

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

RecordFile::RecordFile(const std::string& option, const std::string& path,
                       const TrainOptions& options)
    : keep_(!options.overwrite) {
    const OutputFile file = check_output({.option = option,
                                          .path = path,
                                          .overwrite = options.overwrite || options.resume,
                                          .inputs = input_files(options)});
    check_folder_of(file);
    path_ = file.path;
}

const std::string& RecordFile::make_room() {
    if (keep_ && is_there(path_)) {
        rename_to_next(path_);
    }
    keep_ = false;
    return path_;
}

}  // namespace cohort
