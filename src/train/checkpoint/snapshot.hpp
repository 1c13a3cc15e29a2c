#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/lease.hpp"
#include "cohort/train/events.hpp"

namespace cohort {

/// `<folder>/step-000000012800.h5` for 12,800 samples applied.
[[nodiscard]] std::string checkpoint_path(const std::string& folder, std::int64_t samples_applied);

/// Checkpoints of a folder (manifests, not their shards), newest first; none when it is missing.
[[nodiscard]] std::vector<std::string> list_checkpoints(const std::string& folder);

/// Keeps `written`, the checkpoint just saved, and the `keep` - 1 checkpoints before it; deletes
/// older ones with their shards, manifest first. Files with a higher number are of another run:
/// they stay and do not count. Errors: FileError.
void prune_checkpoints(const std::string& written, int keep);

// A checkpoint of many ranks is one manifest, step-000000012800.h5, and beside it one file per
// shard, step-000000012800.shard-0.h5. Each owner of a shard writes its file, the coordinator
// writes the manifest when all shards are written: the checkpoint exists from the moment when the
// manifest gets its name. A checkpoint can be read with any other cut into shards.

/// One owner's part of a run at one version, in host memory: the parameters [begin, end) (floats of
/// the flat buffer) with their optimizer state, and in one of the parts all of the state.
struct ShardSnapshot {
    std::int32_t part = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t version = 0;
    std::vector<float> parameters;  ///< [end - begin]
    std::vector<float> state;       ///< [graph.state().total()], or empty: not with this part
    std::vector<std::pair<std::string, std::vector<float>>> optimizer_slots;  ///< [end - begin]
    std::vector<std::pair<std::string, double>> optimizer_scalars;
};

/// The fact of a run's identity that describes its network: network_text.
inline constexpr const char* kNetworkFact = "network";

/// State of a run between two updates, without the buffers: the content of the manifest.
struct RunSnapshot {
    /// Facts that must be the same when the run continues, by name; not the number of ranks or the
    /// architecture.
    std::vector<std::pair<std::string, std::string>> identity;
    /// arithmetic() of the host that wrote it, or empty; a deterministic run needs the same.
    std::string arithmetic;
    TrainProgress progress;
    std::int64_t version = 0;               ///< V of every shard
    std::int64_t reference_batch = 0;       ///< B, fixed for the run
    double reference_batches = 0;           ///< applied: samples / B
    std::vector<std::int64_t> lease_state;  ///< the lease book, outstanding leases included
    SampleAccounts accounts;
    std::int64_t metrics_bytes = 0;   ///< length of metrics.jsonl
    std::int64_t parameters = 0;      ///< floats in all shards together
    std::vector<std::string> shards;  ///< files of the shards: names beside the manifest
    auto fields() {
        return std::tie(identity, arithmetic, progress, version, reference_batch, reference_batches,
                        lease_state, accounts, metrics_bytes, parameters, shards);
    }
};

/// Writes a shard beside the manifest to be (atomic, checksummed; HDF5 work in slices at low
/// priority) and returns the file's name for RunSnapshot::shards. Files of earlier attempts are not
/// touched: the new file then gets another name. Blocks: call it on a background thread. Errors:
/// FileError; no file is left behind then.
[[nodiscard]] std::string write_shard(const std::string& manifest_path,
                                      const ShardSnapshot& snapshot, Hdf5Thread& thread);

/// Completes a checkpoint: reads all `snapshot.shards` back (each must exist, be whole and of
/// `snapshot.version`; together they must cover [0, snapshot.parameters) once), writes the manifest
/// and deletes other shards of this step. Blocks. Errors: FileError naming the file; an older
/// checkpoint of that name is unchanged, and without one the shards are deleted.
void write_manifest(const std::string& path, const RunSnapshot& snapshot, Hdf5Thread& thread);

/// Deletes the shards of an attempt that has failed: `files` as write_shard returned them. Files
/// that cannot be deleted are logged.
void discard_shards(const std::string& manifest_path, const std::vector<std::string>& files);

/// Reads a manifest, compares its identity with `identity` and checks every shard: it must exist,
/// be whole, be the listed file and of this version, and all parameters must be covered once.
/// Errors: FileError naming the file and what is wrong with it or which fact differs.
[[nodiscard]] RunSnapshot read_manifest(
    const std::string& path, const std::vector<std::pair<std::string, std::string>>& identity,
    Hdf5Thread& thread);

/// Reads parameters and optimizer state [begin, end) of a checkpoint with any cut into shards, and
/// with `with_state` all of the state; `part` is 0. Called on every rank that restores. Errors:
/// FileError naming the file, also when the range is not within the checkpoint.
[[nodiscard]] ShardSnapshot read_checkpoint_range(const std::string& manifest_path,
                                                  std::int64_t begin, std::int64_t end,
                                                  bool with_state, Hdf5Thread& thread);

/// Encodes the state of a lease book as the whole numbers that a checkpoint holds:
/// epoch, position, applied, next id, then (epoch, position, count) per pending slice.
[[nodiscard]] std::vector<std::int64_t> encode_lease_state(const LeaseState& state);
/// The inverse. Errors: FileError for a list that encode_lease_state cannot have made.
/// @param where  for messages: the file that has them
[[nodiscard]] LeaseState decode_lease_state(const std::vector<std::int64_t>& numbers,
                                            const std::string& where);

}  // namespace cohort
