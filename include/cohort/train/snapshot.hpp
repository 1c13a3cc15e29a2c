#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/data/hdf5_thread.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/train/events.hpp"

namespace cohort {

/// A run frozen between two steps, in host memory: what a checkpoint file holds.
struct TrainSnapshot {
    /// Facts that must be the same when the run continues (model, dataset, seed, ...), by name.
    std::vector<std::pair<std::string, std::string>> identity;
    TrainProgress progress;
    std::vector<float> parameters;  ///< [graph.parameters().total()]
    std::vector<float> state;       ///< [graph.state().total()]
    std::vector<std::pair<std::string, std::vector<float>>> optimizer_slots;
    std::vector<std::pair<std::string, double>> optimizer_scalars;
    std::vector<std::int64_t> lease_state;  ///< the lease book, outstanding leases included
    SampleAccounts accounts;
    std::int64_t metrics_bytes = 0;  ///< length of metrics.jsonl
};

/// Writes a checkpoint (atomic, checksummed; HDF5 work in slices at low priority). Blocks: call it
/// on a background thread. Errors: FileError.
void write_checkpoint(const std::string& path, const TrainSnapshot& snapshot, Hdf5Thread& thread);

/// Reads a checkpoint and compares its identity with `identity`.
/// Errors: FileError naming the file and what is wrong with it or which fact differs.
[[nodiscard]] TrainSnapshot read_checkpoint(
    const std::string& path, const std::vector<std::pair<std::string, std::string>>& identity,
    Hdf5Thread& thread);

/// `<folder>/step-000000012800.h5` for 12,800 samples applied.
[[nodiscard]] std::string checkpoint_path(const std::string& folder, std::int64_t samples_applied);

/// Checkpoint files of a folder, newest first; none when the folder is missing.
[[nodiscard]] std::vector<std::string> list_checkpoints(const std::string& folder);

/// Keeps `written`, the checkpoint just saved, and the `keep` - 1 before it; deletes older ones.
/// Files of a higher number are not this run's: they stay and do not count. Errors: FileError.
void prune_checkpoints(const std::string& written, int keep);

/// A trained model: parameters and state by tensor name, and how its input was normalised.
struct ModelFile {
    std::string model;  ///< name for make_model
    std::vector<std::int64_t> sample_shape;
    std::int64_t classes = 0;
    std::vector<float> mean;        ///< [sample_shape[0]], of the train set; the model takes
    std::vector<float> std;         ///< (sample - mean) / std, std > 0
    std::vector<float> parameters;  ///< flat, layout of make_model's graph
    std::vector<float> state;
};

/// Writes `model.h5`. Errors: FileError.
void write_model(const std::string& path, const Graph& graph, const ModelFile& model,
                 Hdf5Thread& thread);
/// Reads one back. Errors: FileError, also when tensors do not fit the named model.
[[nodiscard]] ModelFile read_model(const std::string& path, Hdf5Thread& thread);

}  // namespace cohort
