#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/store.hpp"

// Common parts of a checkpoint's files.
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

}  // namespace cohort
