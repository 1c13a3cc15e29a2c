#include "train/run/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "data/file/file_io.hpp"
#include "data/hdf5/store.hpp"
#include "records/tensorboard/event_file.hpp"
#include "train/checkpoint/checkpoint_format.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/sleep_compute.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Limit of the reason in an exit code file.
constexpr std::size_t kReasonBytes = 2000;

std::vector<std::string> existing_results(const std::string& out) {
    const RunFolder folder(out);
    std::vector<std::string> found = list_checkpoints(folder.checkpoints);
    const std::vector<std::string> refused = refused_files(folder.checkpoints);
    found.insert(found.end(), refused.begin(), refused.end());
    std::error_code error;
    const std::vector<std::string> events = event_files(folder.tensorboard);
    found.insert(found.end(), events.begin(), events.end());
    for (const std::string& path : {folder.model, folder.metrics}) {
        if (fs::exists(path, error)) {
            found.push_back(path);
        }
    }
    return found;
}

/// Removes unfinished files of killed runs.
void remove_torn_files(const RunFolder& folder) {
    for (const fs::path& path : {fs::path(folder.model), fs::path(folder.live_page),
                                 fs::path(folder.checkpoints) / "step-"}) {
        const std::string parent = path.parent_path().string();
        for (const std::string& name : remove_stale_temporaries(parent, path.filename().string())) {
            log_info("{}/{}: left by a process that was killed, deleted", parent, name);
        }
    }
}

/// False when the file exists already or cannot be written whole.
bool write_new_file(const std::string& path, const std::string& text) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
        return false;
    }
    const bool written = write_all(file, text) == 0;
    if (!written) {
        unlink(path.c_str());
    }
    close(file);
    return written;
}

/// @param out  the run's folder, which may be reached through a link; those below are not
void remove_results(const std::string& out, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        const std::string parent = fs::path(path).parent_path().string();
        const OutputFolder folder(parent, parent == out ? FolderRule::kOwn : FolderRule::kOwnReal);
        if (const int error = folder.remove(fs::path(path).filename().string()); error != 0) {
            fail_errno(path, "cannot be deleted", error);
        }
    }
}

/// Space for metrics, and for HDF5's own structures.
constexpr std::uint64_t kBeside = std::uint64_t{1} << 20U;

/// Free bytes of a folder's file system, also for a folder still to be made; none when not known.
std::optional<std::uint64_t> free_bytes(const std::string& folder) {
    std::error_code error;
    fs::path path = fs::absolute(folder);
    while (!fs::exists(path, error) && path.has_relative_path()) {
        path = path.parent_path();
    }
    struct statvfs facts {};
    if (::statvfs(path.c_str(), &facts) != 0 || facts.f_blocks == 0) {
        return std::nullopt;
    }
    const auto blocks = ::geteuid() == 0 ? facts.f_bfree : facts.f_bavail;
    return std::uint64_t{blocks} * facts.f_frsize;
}

std::uint64_t size_of(const std::string& path) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    return error ? 0 : bytes;
}

std::uint64_t size_of_checkpoint(const std::string& manifest) {
    std::uint64_t bytes = size_of(manifest);
    for (const std::string& shard : shard_files(manifest)) {
        bytes += size_of(shard);
    }
    return bytes;
}

/// Bytes of the checkpoints that this run deletes or counts among those it keeps.
std::uint64_t size_of_replaced(const TrainOptions& options, const RunBytes& bytes) {
    std::uint64_t found = 0;
    for (const std::string& manifest : list_checkpoints(RunFolder(options.out).checkpoints)) {
        found += size_of_checkpoint(manifest);
    }
    if (options.overwrite) {
        return found + size_of(RunFolder(options.out).model);
    }
    return std::min(found, bytes.checkpoint * bytes.checkpoints);
}

/// Manifest first, so that the rest of an interrupted deletion is no checkpoint.
void remove_checkpoint(const std::string& manifest) {
    std::vector<std::string> files = shard_files(manifest);
    files.insert(files.begin(), manifest);
    remove_results({}, files);
}

/// Files that the options name for the run to read; some names may be empty.
std::vector<std::string> input_files(const TrainOptions& options) {
    return {options.data, options.model, options.init, options.predictor_file,
            options.chooser_file};
}

}  // namespace

OutputFile check_record(const std::string& option, const std::string& path,
                        const TrainOptions& options) {
    return check_output({.option = option,
                         .path = path,
                         .overwrite = options.overwrite || options.resume,
                         .inputs = input_files(options)});
}

OutputFile check_metrics_file(const TrainOptions& options) {
    return check_output({.option = "--metrics-file",
                         .path = options.metrics_file,
                         .overwrite = options.overwrite || options.resume,
                         .inputs = input_files(options),
                         .own_start = "# HELP cohort_"});
}

void check_run_folder(const TrainOptions& options) {
    check_output_folder(options.out,
                        {"run.lock", "metrics.jsonl", "model.h5", "exit_code", "live.html"},
                        {"checkpoints", "ctl", "tensorboard"});
    for (const auto& [option, path] : {std::pair("--record-trace", options.record_trace),
                                       std::pair("--record-load", options.record_load),
                                       std::pair("--timeline", options.timeline)}) {
        if (!path.empty()) {
            (void)check_record(option, path, options);
        }
    }
    if (!options.metrics_file.empty()) {
        (void)check_metrics_file(options);
    }
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
    const std::string out = fs::path(folder.exit_code).parent_path().string();
    if (options.overwrite) {
        remove_results(out, existing_results(options.out));
    }
    remove_torn_files(folder);
    remove_orphan_shards(folder.checkpoints);
    remove_results(out, {folder.exit_code, folder.live_page});
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

std::uint64_t RunBytes::all() const noexcept {
    return model + checkpoints * checkpoint + kBeside;
}

RunBytes run_bytes(const JobContext& parts) {
    const TrainOptions& options = parts.options;
    const auto floats = static_cast<std::uint64_t>(parts.graph.parameters().total());
    const auto state = static_cast<std::uint64_t>(parts.graph.state().total());
    const std::uint64_t slots = parts.optimizer.kind == OptimizerKind::kSgd ? 1 : 3;
    const auto keep = static_cast<std::uint64_t>(std::max(options.keep_checkpoints, 1));
    RunBytes bytes{.model = sizeof(float) * (floats + state),
                   .checkpoint = sizeof(float) * ((1 + slots) * floats + state)};
    if (options.checkpoint_every_s > 0) {
        bytes.checkpoints = keep + 1;
    } else if (options.checkpoint_every_samples > 0) {
        const auto in_all = 1 + parts.budget_samples / options.checkpoint_every_samples;
        bytes.checkpoints = std::min(keep + 1, static_cast<std::uint64_t>(in_all));
    }
    if (!computes_network(options)) {
        bytes.model = 0;
    }
    return bytes;
}

void check_free_space(const TrainOptions& options, const RunBytes& bytes) {
    const std::optional<std::uint64_t> free = free_bytes(options.out);
    if (!free || *free + size_of_replaced(options, bytes) >= bytes.all()) {
        return;
    }
    const std::string where = "--out " + options.out;
    const std::string expected = fmt::format(
        "{} ({} checkpoints of {} at a time, a model of {}, metrics)", format_bytes(bytes.all()),
        bytes.checkpoints, format_bytes(bytes.checkpoint), format_bytes(bytes.model));
    const std::string got = format_bytes(*free) + " free";
    fail<DiskFullError>({.where = where,
                         .what = "the disk has no room for what this run writes",
                         .expected = expected,
                         .got = got,
                         .hint = "another folder, or fewer checkpoints (--keep-checkpoints)"});
}

bool write_with_room(const std::string& checkpoints, std::uint64_t bytes, bool newest_too,
                     const std::function<void()>& write) {
    bool newest_there = true;
    for (;;) {
        try {
            write();
            return newest_there;
        } catch (const DiskFullError& error) {
            std::vector<std::string> left = list_checkpoints(checkpoints);
            if (!newest_too && !left.empty()) {
                left.erase(left.begin());
            }
            std::uint64_t room = free_bytes(checkpoints).value_or(0);
            for (const std::string& manifest : left) {
                room += size_of_checkpoint(manifest);
            }
            if (left.empty() || room < bytes) {
                throw;
            }
            log_warn("{}; checkpoint {} is deleted to make room", error.what(), left.back());
            remove_checkpoint(left.back());
            newest_there = !(newest_too && left.size() == 1);
        }
    }
}

}  // namespace cohort
