#include "dataset_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cohort {

std::int64_t default_chunk_samples(std::size_t sample_bytes) {
    constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
    const std::size_t fitting = kChunkBytes / std::max<std::size_t>(sample_bytes, 1);
    return static_cast<std::int64_t>(std::clamp<std::size_t>(fitting, 1, 256));
}

hid_t sample_hdf5_type(SampleType type) {
    return type == SampleType::kU8 ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT;
}

std::string checksum_text(const GroupChecksum& train, const GroupChecksum& test) {
    return fmt::format(
        "crc32 train/samples:{:08x} train/labels:{:08x} test/samples:{:08x} test/labels:{:08x}",
        train.samples, train.labels, test.samples, test.labels);
}

std::int64_t first_not_finite(std::span<const std::byte> samples, SampleType type) {
    if (type == SampleType::kU8) {
        return -1;
    }
    for (std::size_t at = 0; at + sizeof(float) <= samples.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, samples.data() + at, sizeof value);
        if (!std::isfinite(value)) {
            return static_cast<std::int64_t>(at / sizeof(float));
        }
    }
    return -1;
}

void read_samples(const Hdf5Handle& dataset, std::string_view where, const SampleSetInfo& info,
                  std::int64_t first, std::int64_t count, std::span<std::byte> into) {
    std::vector<hsize_t> extents{static_cast<hsize_t>(count)};
    extents.insert(extents.end(), info.sample_shape.begin(), info.sample_shape.end());
    std::vector<hsize_t> start(extents.size(), 0);
    start[0] = static_cast<hsize_t>(first);
    const Hdf5Handle in_file =
        hdf5_own(H5Dget_space(dataset.id()), H5Sclose, where, "cannot read the shape");
    hdf5_check(H5Sselect_hyperslab(in_file.id(), H5S_SELECT_SET, start.data(), nullptr,
                                   extents.data(), nullptr),
               where, "cannot select samples");
    const Hdf5Handle in_memory =
        hdf5_own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                 H5Sclose, where, "cannot select samples");
    hdf5_check(H5Dread(dataset.id(), sample_hdf5_type(info.type), in_memory.id(), in_file.id(),
                       H5P_DEFAULT, into.data()),
               where,
               fmt::format("cannot read samples {} to {} (truncated or damaged)", first,
                           first + count - 1));
}

}  // namespace cohort
