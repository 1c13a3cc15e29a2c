#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cohort/data/sample_source.hpp"
#include "data/dataset/dataset_layout.hpp"

namespace cohort {

/// FileError for the first value of `samples` that is NaN or infinite, naming its sample and its
/// place within it.
/// @param first number of the first sample, as messages count
void check_finite(std::span<const std::byte> samples, SampleType type,
                  std::span<const std::int64_t> sample_shape, std::int64_t first,
                  std::string_view where);

/// FileError when the number of classes must be a mistake: more than 131072 and more than the train
/// group has samples, so that most classes would have no sample and the network's last layer would
/// not fit into memory.
void check_classes(std::int64_t classes, std::int64_t train_samples, std::string_view where);

/// FileError when `checksum`, of samples [first, first + count), differs from `known`. If none is
/// known yet, `checksum` becomes the known one.
void compare_chunk(ChunkChecksum& known, std::uint32_t checksum, std::int64_t first,
                   std::int64_t count, std::string_view where);

/// Takes over the checksums that the file records and compares labels, first and last chunk with
/// them: damage at the end of a file shows here, not hours later. Sets info.checked and, where the
/// file has none, info.checksum. On the HDF5 thread.
void check_contents(OpenGroup& open, const std::string& group);

}  // namespace cohort
