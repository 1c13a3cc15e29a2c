#include "train/run/run_folder.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "data/hdf5/store.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Limit of the reason in an exit code file.
constexpr std::size_t kReasonBytes = 2000;

/// Checks the files that the run records outside its output folder: a resumed run keeps those of
/// the earlier part.
void check_records(const TrainOptions& options) {
    for (const auto& [option, path] : {std::pair("--record-trace", options.record_trace),
                                       std::pair("--record-load", options.record_load)}) {
        if (!path.empty()) {
            (void)check_output({.option = option,
                                .path = path,
                                .overwrite = options.overwrite || options.resume,
                                .inputs = input_files(options)});
        }
    }
}

std::vector<std::string> existing_results(const std::string& out) {
    const RunFolder folder(out);
    std::vector<std::string> found = list_checkpoints(folder.checkpoints);
    const std::vector<std::string> refused = refused_files(folder.checkpoints);
    found.insert(found.end(), refused.begin(), refused.end());
    std::error_code error;
    for (const std::string& path : {folder.model, folder.metrics}) {
        if (fs::exists(path, error)) {
            found.push_back(path);
        }
    }
    return found;
}

/// Removes unfinished files of killed runs.
void remove_torn_files(const RunFolder& folder) {
    for (const fs::path& path : {fs::path(folder.model), fs::path(folder.checkpoints) / "step-"}) {
        const std::string parent = path.parent_path().string();
        for (const std::string& name : remove_stale_temporaries(parent, path.filename().string())) {
            log_info("{}/{}: left by a process that was killed, deleted", parent, name);
        }
    }
}

/// False when the file exists already or cannot be written whole.
bool write_new_file(const std::string& path, const std::string& text) {
    std::FILE* const file = std::fopen(path.c_str(), "wxe");  // exclusively, closed on exec
    if (file == nullptr) {
        return false;
    }
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool whole = std::fclose(file) == 0 && written;
    if (!whole) {
        std::remove(path.c_str());
    }
    return whole;
}

void remove_results(const RunFolder& run, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        const std::string parent = fs::path(path).parent_path().string();
        const OutputFolder folder(
            parent, parent == run.checkpoints ? FolderRule::kOwnReal : FolderRule::kOwn);
        if (const int error = folder.remove(fs::path(path).filename().string()); error != 0) {
            fail_errno(path, "cannot be deleted", error);
        }
    }
}

}  // namespace

std::vector<std::string> input_files(const TrainOptions& options) {
    return {options.data, options.predictor_file, options.efficiency_file, options.chooser_file};
}

void check_run_folder(const TrainOptions& options) {
    check_output_folder(options.out, {"run.lock", "metrics.jsonl", "model.h5", "exit_code"},
                        {"checkpoints", "ctl"});
    check_records(options);
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
    const RunFolder folder(options.out);
    if (options.overwrite) {
        remove_results(folder, existing_results(options.out));
    }
    remove_torn_files(folder);
    remove_orphan_shards(folder.checkpoints);
    remove_results(folder, {folder.exit_code});
    return lock;
}

std::optional<FoundCheckpoint> find_manifest(
    const std::string& folder, const std::vector<std::pair<std::string, std::string>>& identity,
    Hdf5Thread& thread) {
    std::vector<std::string> refused;
    std::string reason;
    for (const std::string& path : list_checkpoints(folder)) {
        try {
            FoundCheckpoint found{path, read_manifest(path, identity, thread)};
            log_info("resuming from {}, {} samples applied", path,
                     found.snapshot.progress.samples_applied);
            std::for_each(refused.begin(), refused.end(), put_checkpoint_aside);
            return found;
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

bool write_exit_code(const std::string& out, ExitCode code, std::string_view reason) noexcept {
    try {
        std::string line(reason.substr(0, kReasonBytes));
        std::replace_if(
            line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
        return write_new_file(RunFolder(out).exit_code,
                              std::to_string(static_cast<int>(code)) + "\n" + line + "\n");
    } catch (const std::exception&) {
        return false;  // no memory
    }
}

}  // namespace cohort
