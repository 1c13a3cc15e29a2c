#include "train/run/run_space.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/snapshot.hpp"
#include "train/worker/sleep_compute.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

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
    const OutputFolder folder(fs::path(manifest).parent_path().string(), FolderRule::kOwnReal);
    std::vector<std::string> files = shard_files(manifest);
    files.insert(files.begin(), manifest);
    for (const std::string& file : files) {
        if (const int error = folder.remove(fs::path(file).filename().string()); error != 0) {
            fail_errno(file, "cannot be deleted", error);
        }
    }
}

}  // namespace

std::uint64_t RunBytes::all() const noexcept {
    return model + checkpoints * checkpoint + kBeside;
}

RunBytes run_bytes(const JobParts& parts) {
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
