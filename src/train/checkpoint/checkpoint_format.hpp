#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/store.hpp"

// Common parts of a checkpoint's files. By name: step-000000012800.h5 is a checkpoint (a manifest),
// step-000000012800.shard-0.h5 one of its shards, step-000000012800.shard-0.2.h5 the same of a
// second attempt, and NAME.refused a file that a resume has refused and renamed.
namespace cohort {

/// A shard's file as listed in the manifest.
struct ShardFile {
    std::string file;  ///< name beside the manifest
    std::int64_t part = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool has_state = false;
    StoreStamp stamp;
};

/// Opens a shard and reads it once. Errors: FileError when it is missing, torn or no shard.
[[nodiscard]] std::unique_ptr<StoreReader> open_shard(const std::string& path, Hdf5Thread& thread);
/// The description of an open shard. Errors: FileError unless it is of `version`.
[[nodiscard]] ShardFile describe_shard(const StoreReader& shard, std::int64_t version);

/// The shards that a manifest lists, and the version of all of them.
struct ShardTable {
    std::int64_t version = 0;
    std::int64_t parameters = 0;  ///< floats in all
    std::vector<ShardFile> shards;
};
[[nodiscard]] ShardTable read_shard_table(const StoreReader& manifest);
/// Opens a shard of the table. Errors: FileError unless its length and checksum are those in the
/// table.
[[nodiscard]] std::unique_ptr<StoreReader> open_listed_shard(const std::string& manifest_path,
                                                             const ShardTable& table,
                                                             const ShardFile& listed,
                                                             Hdf5Thread& thread);

/// Path of the file `name` beside a manifest.
[[nodiscard]] std::string beside(const std::string& manifest_path, std::string_view name);

template <class T>
void put_if_any(StoreWriter& writer, const std::string& name, const std::vector<T>& values) {
    if (!values.empty()) {
        writer.put(name, values);
    }
}

template <class T>
[[nodiscard]] std::vector<T> get_if_any(const StoreReader& reader, const std::string& name) {
    return reader.contains(name) ? reader.get<T>(name) : std::vector<T>();
}

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
