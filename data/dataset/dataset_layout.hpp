#pragma once

#include "cohort/data/sample_source.hpp"

#include "data/file/file_io.hpp"
#include "data/hdf5/hdf5_handle.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// The layout's names (docs/data.md) and what reader, writer and check share.
inline constexpr const char* kFormatAttribute = "format";
inline constexpr const char* kVersionAttribute = "version";
inline constexpr const char* kClassesAttribute = "classes";
inline constexpr const char* kMeanAttribute = "mean";
inline constexpr const char* kStdAttribute = "std";
inline constexpr const char* kTargetMeanAttribute = "target_mean";  // beside targets
inline constexpr const char* kTargetStdAttribute = "target_std";    // beside targets
inline constexpr const char* kSourceAttribute = "source";           // optional
inline constexpr const char* kChecksumAttribute = "checksum";       // optional
/// Beside `samples`, optional: CRC-32 of each `samples` (its attribute) samples, uint32.
inline constexpr const char* kChunkChecksums = "samples_crc32";
inline constexpr const char* kChecksumSamplesAttribute = "samples";
/// Beside the groups, optional, of tokens: the text of the vocabulary, uint8, and in its attribute
/// the kind of tokens.
inline constexpr const char* kVocabulary = "vocabulary";
inline constexpr const char* kTokensAttribute = "tokens";
inline constexpr const char* kLabels = "labels";
inline constexpr const char* kTargets = "targets";
inline constexpr const char* kTrainGroup = "train";
inline constexpr const char* kTestGroup = "test";

/// kLabels or kTargets: what a group has beside its samples, unless they are tokens.
[[nodiscard]] inline const char* labels_name(const SampleSetInfo& info) {
    return info.targets > 0 ? kTargets : kLabels;
}

/// 256 samples, or as many as fit into 1 MiB if those are fewer; at least one.
[[nodiscard]] std::int64_t default_chunk_samples(std::size_t sample_bytes);

/// Only on the HDF5 thread.
[[nodiscard]] hid_t sample_hdf5_type(SampleType type);

/// CRC-32 of the data sets of one group, as they are in memory: samples row-major in their type,
/// labels as int32, targets as float32, all little-endian.
struct GroupChecksum {
    std::uint32_t samples = 0;
    std::uint32_t labels = 0;  ///< or targets
};

/// The text of the `checksum` attribute:
/// `crc32 train/samples:01234567 train/labels:... test/samples:... test/labels:...`, or
/// with `targets` in the place of `labels`; of tokens
/// `crc32 train/samples:... test/samples:... vocabulary:...`, the last where there is one.
[[nodiscard]] std::string checksum_text(const GroupChecksum& train, const GroupChecksum& test,
                                        const SampleSetInfo& info);

/// The entry of `name`, e.g. "train/labels", in such a text; empty: none.
[[nodiscard]] std::string checksum_entry(const std::string& text, const std::string& name);

/// "samples 256 to 511"
[[nodiscard]] std::string samples_text(std::int64_t first, std::int64_t count);

/// CRC-32 of a chunk's samples as they are in memory; none: not known yet.
using ChunkChecksum = std::optional<std::uint32_t>;

/// A group of an open file after every check of open_dataset. On the HDF5 thread.
struct OpenGroup {
    FileWatch watch;
    Hdf5Handle file;
    Hdf5Handle samples;
    SampleSetInfo info;
    std::vector<std::int32_t> labels;      ///< [info.samples]; empty for tokens and targets
    std::vector<float> targets;            ///< [info.samples, info.targets]
    std::vector<ChunkChecksum> checksums;  ///< [info.chunks()]: recorded or of the first read
    std::string where;                     ///< file and `samples`, for errors
};
/// Reads samples [first, first + count). Errors: FileError, also when the file has changed since it
/// was opened. On the HDF5 thread.
void read_samples(const OpenGroup& open, std::int64_t first, std::int64_t count,
                  std::span<std::byte> into);
[[nodiscard]] OpenGroup open_group(const std::string& path, const std::string& group);

/// FileError for the first value of `samples` that cannot be trained on, naming its sample and its
/// place within it: NaN, infinity, or a token below 0 or not below info.classes.
/// @param first number of the first sample, as messages count
void check_values(std::span<const std::byte> samples, const SampleSetInfo& info, std::int64_t first,
                  std::string_view where);

/// FileError for the first target that is not finite, naming its sample and its number.
/// @param first number of the first sample, as messages count
void check_targets(std::span<const float> targets, std::int64_t targets_per_sample,
                   std::int64_t first, std::string_view where);

/// FileError when the number of classes must be a mistake: more than 131072 and more than the train
/// group has labels, so that most classes would have no sample and the network's last layer would
/// not fit into memory.
void check_classes(std::int64_t classes, std::int64_t train_labels, std::string_view where);

/// The file's vocabulary; none: it has none. On the HDF5 thread.
[[nodiscard]] std::shared_ptr<const Vocabulary> read_vocabulary(const Hdf5Handle& file,
                                                                const std::string& path);
/// On the HDF5 thread.
void write_vocabulary(hid_t file, const Vocabulary& vocabulary, const std::string& path);

/// FileError when `checksum`, of samples [first, first + count), differs from `known`. If none is
/// known yet, `checksum` becomes the known one.
void compare_chunk(ChunkChecksum& known, std::uint32_t checksum, std::int64_t first,
                   std::int64_t count, std::string_view where);

/// Takes over the checksums that the file records and compares labels or targets, first and last
/// chunk with them: damage at the end of a file shows here, not hours later. Sets info.checked and,
/// where the file has none, info.checksum. On the HDF5 thread.
void check_contents(OpenGroup& open, const std::string& group);

}  // namespace cohort
