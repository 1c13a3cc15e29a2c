#pragma once

#include <string>
#include <vector>

// The files of a checkpoints folder by name: step-000000012800.h5 is a checkpoint (a manifest),
// step-000000012800.shard-0.h5 one of its shards, step-000000012800.shard-0.2.h5 the same of a
// second attempt, and NAME.refused one that a resume has put aside.
namespace cohort {

inline constexpr const char* kRefused = ".refused";

/// Name for a new shard file of `part`: the first that no file has.
[[nodiscard]] std::string new_shard_name(const std::string& manifest_path, int part);

/// Paths of all shard files of a manifest's step, listed in it or not.
[[nodiscard]] std::vector<std::string> shard_files(const std::string& manifest_path);

/// Paths of all shard files of a folder, whatever their step, sorted.
[[nodiscard]] std::vector<std::string> all_shard_files(const std::string& folder);

/// Paths of what has been put aside in a folder.
[[nodiscard]] std::vector<std::string> refused_files(const std::string& folder);

/// Deletes the shards whose step has no manifest: their writers were killed. Nobody may be writing
/// into the folder. Says in the log what it did.
void remove_orphan_shards(const std::string& folder);

/// Renames a checkpoint and its shards to NAME.refused: out of the way of later resumes and of
/// counting, but not lost. Says in the log what it did or could not do.
void put_checkpoint_aside(const std::string& manifest_path);

}  // namespace cohort
