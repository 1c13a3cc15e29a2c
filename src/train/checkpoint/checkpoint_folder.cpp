#include "train/checkpoint/checkpoint_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kShard = ".shard-";
constexpr std::string_view kEnd = ".h5";

/// "step-000000012800" from the name of a manifest or a shard; none for other names.
std::optional<std::string> step_of(std::string_view name) {
    if (!name.starts_with(kStepPrefix) || !name.ends_with(kEnd)) {
        return std::nullopt;
    }
    const std::size_t end = name.find_first_not_of("0123456789", kStepPrefix.size());
    if (end == std::string_view::npos || end == kStepPrefix.size()) {
        return std::nullopt;
    }
    return std::string(name.substr(0, end));
}

bool is_shard(std::string_view name) {
    const auto step = step_of(name);
    return step && name.substr(step->size()).starts_with(kShard);
}

bool is_manifest(std::string_view name) {
    const auto step = step_of(name);
    return step && name.substr(step->size()) == kEnd;
}

/// Also true when it cannot be determined, so that nothing is deleted on a guess.
bool has_manifest(const std::string& folder, const std::string& step) {
    std::error_code error;
    return fs::exists(fmt::format("{}/{}{}", folder, step, kEnd), error) || error;
}

std::vector<std::string> files_of(const std::string& folder,
                                  const std::function<bool(const std::string&)>& wanted) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (wanted(entry.path().filename().string())) {
            paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

/// Removes a file, if it exists. A folder that was replaced by a link is refused.
/// @return why it could not be removed; empty: it is gone
std::string remove_file(const std::string& path) {
    try {
        const OutputFolder folder(fs::path(path).parent_path().string(), FolderRule::kOwnReal);
        const int error = folder.remove(fs::path(path).filename().string());
        return error == 0 ? "" : errno_text(error);
    } catch (const FileError& error) {
        return error.what();
    }
}

void remove_old(const std::string& path) {
    if (const std::string reason = remove_file(path); !reason.empty()) {
        fail<FileError>(
            {.where = path, .what = "an old checkpoint cannot be deleted", .got = reason});
    }
}

/// True when it has been renamed.
bool put_aside(const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    const OutputFolder folder(fs::path(path).parent_path().string(), FolderRule::kOwnReal);
    const int error = folder.rename(name, name + kRefused);
    if (error != 0) {
        log_warn("{} cannot be renamed: {}", path, errno_text(error));
    }
    return error == 0;
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t samples_applied) {
    return fmt::format("{}/{}{:012}{}", folder, kStepPrefix, samples_applied, kEnd);
}

std::vector<std::string> list_checkpoints(const std::string& folder) {
    std::vector<std::string> paths = files_of(folder, is_manifest);
    std::reverse(paths.begin(), paths.end());
    return paths;
}

/// Manifests are deleted before their shards, so that the rest of an interrupted deletion is never
/// taken for a checkpoint.
void prune_checkpoints(const std::string& written, int keep) {
    const fs::path newest(written);
    const std::string folder = newest.parent_path().string();
    int kept = 0;
    for (const std::string& path : list_checkpoints(folder)) {
        const bool later = fs::path(path).filename() > newest.filename();
        if (!later && kept++ >= std::max(keep, 1)) {
            remove_old(path);
        }
    }
    for (const std::string& shard : all_shard_files(folder)) {
        const std::string step = *step_of(fs::path(shard).filename().string());
        if (step < newest.stem().string() && !has_manifest(folder, step)) {
            remove_old(shard);
        }
    }
}

std::string new_shard_name(const std::string& manifest_path, int part) {
    const fs::path manifest(manifest_path);
    const std::string base = fmt::format("{}{}{}", manifest.stem().string(), kShard, part);
    std::string name = fmt::format("{}{}", base, kEnd);
    for (int attempt = 2; fs::exists(manifest.parent_path() / name); ++attempt) {
        name = fmt::format("{}.{}{}", base, attempt, kEnd);
    }
    return name;
}

std::vector<std::string> shard_files(const std::string& manifest_path) {
    const fs::path manifest(manifest_path);
    return files_of(manifest.parent_path().string(), [&](const std::string& name) {
        return is_shard(name) && *step_of(name) == manifest.stem().string();
    });
}

std::vector<std::string> all_shard_files(const std::string& folder) {
    return files_of(folder, is_shard);
}

std::vector<std::string> refused_files(const std::string& folder) {
    return files_of(folder, [](const std::string& name) { return name.ends_with(kRefused); });
}

void remove_orphan_shards(const std::string& folder) {
    for (const std::string& shard : all_shard_files(folder)) {
        const std::string step = *step_of(fs::path(shard).filename().string());
        if (has_manifest(folder, step)) {
            continue;
        }
        if (const std::string reason = remove_file(shard); reason.empty()) {
            log_info("{}: part of a checkpoint that was not completed, deleted", shard);
        } else {
            log_warn("{}: part of a checkpoint that was not completed; cannot be deleted: {}",
                     shard, reason);
        }
    }
}

void discard_shards(const std::string& manifest_path, const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        const std::string path = fs::path(manifest_path).replace_filename(file).string();
        if (const std::string reason = is_shard(file) ? remove_file(path) : "no shard";
            !reason.empty()) {
            log_warn("{}: part of a checkpoint that failed; cannot be deleted: {}", path, reason);
        }
    }
}

void put_checkpoint_aside(const std::string& manifest_path) {
    for (const std::string& shard : shard_files(manifest_path)) {
        put_aside(shard);
    }
    if (put_aside(manifest_path)) {
        log_warn("{} is now called {}{}", manifest_path,
                 fs::path(manifest_path).filename().string(), kRefused);
    }
}

}  // namespace cohort
