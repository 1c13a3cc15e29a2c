#include "data/dataset/dataset_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

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

std::string checksum_entry(const std::string& text, const std::string& name) {
    const std::size_t at = text.find(fmt::format(" {}:", name));
    if (at == std::string::npos) {
        return "";
    }
    const std::size_t value = at + name.size() + 2;
    return text.substr(value, text.find(' ', value) - value);
}

std::string samples_text(std::int64_t first, std::int64_t count) {
    return count == 1 ? fmt::format("sample {}", first)
                      : fmt::format("samples {} to {}", first, first + count - 1);
}

}  // namespace cohort
