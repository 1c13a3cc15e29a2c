#include "run_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/data/store.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRefused = ".refused";

/// The folder, or else the nearest one above it that exists, must be one to write into.
void check_writable(const std::string& out) {
    fs::path path = fs::absolute(out);
    std::error_code error;
    while (!fs::exists(path, error) && !error && path.has_relative_path()) {
        path = path.parent_path();
    }
    const bool folder = fs::is_directory(path, error);
    if (!folder || access(path.c_str(), W_OK | X_OK) != 0) {
        const std::string reason = folder  ? errno_text(errno)
                                   : error ? error.message()
                                           : "not a folder";
        fail<FileError>({.where = out,
                         .what = "results cannot be written there",
                         .expected = "a folder that exists or can be made",
                         .got = path.string() + ": " + reason});
    }
}

std::vector<std::string> existing_results(const std::string& out) {
    const RunFolder folder(out);
    std::vector<std::string> found = list_checkpoints(folder.checkpoints);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder.checkpoints, error)) {
        if (entry.path().extension() == kRefused) {
            found.push_back(entry.path().string());
        }
    }
    for (const std::string& path : {folder.model, folder.metrics}) {
        if (fs::exists(path, error)) {
            found.push_back(path);
        }
    }
    return found;
}

/// Out of the way of later resumes and of counting, but not lost.
void put_aside(const std::string& path) {
    std::error_code error;
    fs::rename(path, path + kRefused, error);
    if (error) {
        log_warn("{} cannot be renamed: {}", path, error.message());
    } else {
        log_warn("{} is now called {}", path, fs::path(path + kRefused).filename().string());
    }
}

/// What runs that were killed were writing.
void remove_torn_files(const RunFolder& folder) {
    for (const fs::path& path : {fs::path(folder.model), fs::path(folder.checkpoints) / "step-"}) {
        const std::string parent = path.parent_path().string();
        for (const std::string& name : remove_stale_temporaries(parent, path.filename().string())) {
            log_info("{}/{}: left by a process that was killed, deleted", parent, name);
        }
    }
}

void remove_results(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        std::error_code error;
        fs::remove(path, error);
        if (error) {
            fail<FileError>({.where = path, .what = "cannot be deleted", .got = error.message()});
        }
    }
}

}  // namespace

void check_run_folder(const TrainOptions& options) {
    check_writable(options.out);
    const std::vector<std::string> found = existing_results(options.out);
    if (!found.empty() && !options.resume && !options.overwrite) {
        fail<UsageError>({.where = "--out " + options.out,
                          .what = "holds the results of another run",
                          .got = found.back(),
                          .hint = "--resume to continue it, --overwrite to replace it, or another "
                                  "folder"});
    }
}

RunLock prepare_run_folder(const TrainOptions& options) {
    RunLock lock(options.out);
    check_run_folder(options);
    if (options.overwrite) {
        remove_results(existing_results(options.out));
    }
    remove_torn_files(RunFolder(options.out));
    return lock;
}

std::optional<TrainSnapshot> find_checkpoint(
    const std::string& folder, const std::vector<std::pair<std::string, std::string>>& identity,
    Hdf5Thread& thread) {
    std::vector<std::string> refused;
    std::string reason;
    for (const std::string& path : list_checkpoints(folder)) {
        try {
            TrainSnapshot snapshot = read_checkpoint(path, identity, thread);
            log_info("resuming from {}, {} samples applied", path,
                     snapshot.progress.samples_applied);
            std::for_each(refused.begin(), refused.end(), put_aside);
            return snapshot;
        } catch (const FileError& error) {
            log_warn("checkpoint refused: {}", error.what());
            refused.push_back(path);
            reason = error.what();
        }
    }
    if (!refused.empty()) {
        fail<FileError>({.where = folder,
                         .what = "no checkpoint can be used; the last one: " + reason,
                         .hint = "--overwrite to start anew"});
    }
    return std::nullopt;
}

}  // namespace cohort
