#pragma once

#include <string>
#include <vector>

// The files of a checkpoints folder by name: step-000000012800.h5 is a checkpoint (a manifest),
// step-000000012800.shard-0.h5 one of its shards, step-000000012800.shard-0.2.h5 the same of a
// second attempt, and NAME.refused a file that a resume has refused and renamed.
namespace cohort {

inline constexpr const char* kRefused = ".refused";

/// Name for a new shard file of `part`: the first unused one.
[[nodiscard]] std::string new_shard_name(const std::string& manifest_path, int part);

/// Paths of all shard files of a manifest's step, listed in it or not.
[[nodiscard]] std::vector<std::string> shard_files(const std::string& manifest_path);

/// Paths of all shard files of a folder, whatever their step, sorted.
[[nodiscard]] std::vector<std::string> all_shard_files(const std::string& folder);

/// Paths of refused files in a folder.
[[nodiscard]] std::vector<std::string> refused_files(const std::string& folder);

/// Deletes the shards whose step has no manifest: their writers were killed. No process may be
/// writing into the folder. Logs the deletions.
void remove_orphan_shards(const std::string& folder);

/// Renames a checkpoint and its shards to NAME.refused, so that later resumes and the counting of
/// checkpoints ignore them. Logs what it did or could not do.
void put_checkpoint_aside(const std::string& manifest_path);

}  // namespace cohort
