#pragma once

#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/sample_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort {

inline constexpr const char* kDatasetFormat = "cohort-dataset";
inline constexpr int kDatasetVersion = 1;
/// Of a file with targets in place of labels: a reader that knows labels alone refuses it.
inline constexpr int kTargetsVersion = 2;
/// Targets of a sample, at most: their means are an attribute, which HDF5 limits to 64 KiB.
inline constexpr std::int64_t kMostTargets = 4096;

/// Opens group `group` ("train" or "test") of the dataset file at `path`; docs/data.md has the
/// layout. Checks everything that does not need all samples: format and attributes, shapes, types,
/// counts, every label or target, and that the samples were written completely. In the result
/// `mean` and `std` always have sample_shape[0] entries, the number of channels of [C,H,W] or of
/// features of [F]; tokens have neither. Blocks; `thread` must outlive the result. Errors:
/// FileError naming the file, the data set or attribute, expected and got.
[[nodiscard]] std::unique_ptr<SampleSource> open_dataset(const std::string& path,
                                                         const std::string& group,
                                                         Hdf5Thread& thread);

/// Result of verify_dataset for an intact file.
struct DatasetCheck {
    std::int64_t train_samples = 0;
    std::int64_t test_samples = 0;
    bool checksum_recorded =
        false;             ///< false: the file has none (it is optional), nothing compared
    std::string checksum;  ///< as computed now, in the attribute's notation
};

/// Reads every sample, label and target of both groups and compares them with the file's `checksum`
/// attribute. On demand only: training does not pay for it. Blocks.
/// Errors: FileError as open_dataset, or naming the data set whose checksum differs or that holds
/// a value that is not finite.
[[nodiscard]] DatasetCheck verify_dataset(const std::string& path, Hdf5Thread& thread);

/// Properties of a dataset that a DatasetWriter needs before the first sample.
struct DatasetSpec {
    std::vector<std::int64_t> sample_shape;  ///< [C,H,W], [F], or [T] of tokens
    SampleType type = SampleType::kU8;
    std::int64_t classes = 0;  ///< 0: the largest label plus one; tokens: those of the vocabulary
    std::int64_t targets = 0;  ///< numbers to predict of a sample; 0: it has a label
    std::shared_ptr<const Vocabulary> vocabulary;  ///< of tokens, kept in the file; may be none
    std::string source;                            ///< where the data came from, for people
    std::int64_t chunk_samples = 0;  ///< 0: 256, fewer when a chunk would exceed 1 MiB
    int compress_level = 0;          ///< gzip 1..9, 0 for none
};

/// The two sets of a file.
enum class DatasetGroup { kTrain, kTest };

/// Writes a dataset file sample by sample under a temporary name in the output's folder; only
/// commit() gives it its name. Mean and standard deviation per channel come from the train group
/// (double precision; a constant channel's deviation is
/// 1; more than 4096 channels or features share one value), those of targets too. One thread at a
/// time may use a writer.
class DatasetWriter {
public:
    /// Errors: UsageError for an unusable spec or a file that must not be replaced, FileError when
    /// the file cannot be made.
    DatasetWriter(OutputFile file, DatasetSpec spec, Hdf5Thread& thread);
    DatasetWriter(const DatasetWriter&) = delete;
    DatasetWriter& operator=(const DatasetWriter&) = delete;
    /// Without commit(): removes the temporary file.
    ~DatasetWriter();

    /// Adds samples, row-major in the host's byte order, to `group`; windows of tokens have T+1
    /// tokens and no labels, samples with `targets` [samples, spec.targets] have none either.
    /// Errors: FileError for a label or token below 0 or not below a given `classes`, a sample
    /// value or target that is not finite, or a write that failed (disk full); the writer is then
    /// only good to destroy.
    void append(DatasetGroup group, std::span<const std::byte> samples,
                std::span<const std::int32_t> labels, std::span<const float> targets = {});

    [[nodiscard]] std::int64_t samples(DatasetGroup group) const noexcept;

    /// Writes attributes and checksum, makes the file durable and gives it its name, replacing an
    /// older file. Errors: FileError, also when a group is empty or a target never
    /// changes within the train group; the older file then stays.
    void commit();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cohort
