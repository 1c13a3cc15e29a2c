#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cohort {

enum class SampleType { kU8, kF32 };

/// Facts about a set of samples that are known without reading them.
struct SampleSetInfo {
    std::vector<std::int64_t> sample_shape;  ///< [C,H,W] or [F]
    SampleType type = SampleType::kU8;
    std::int64_t samples = 0;
    std::int64_t chunk_samples = 0;  ///< samples per storage chunk; the last may be shorter
    std::int64_t classes = 0;
    std::vector<float> mean;  ///< [sample_shape[0]], in stored units (u8: 0..255)
    std::vector<float> std;   ///< [sample_shape[0]], > 0
    std::string source;       ///< where the data came from, for people
    /// Checksum in any notation: of the whole file if the file records one, else of labels and some
    /// samples.
    std::string checksum;
    bool checked =
        false;  ///< samples are compared with checksums in the file, on first reading too

    [[nodiscard]] std::int64_t sample_elements() const noexcept {
        std::int64_t product = 1;
        for (const std::int64_t extent : sample_shape) {
            product *= extent;
        }
        return product;
    }
    [[nodiscard]] std::size_t sample_bytes() const noexcept {
        return static_cast<std::size_t>(sample_elements()) * (type == SampleType::kU8 ? 1 : 4);
    }
    [[nodiscard]] std::int64_t chunks() const noexcept {
        return (samples + chunk_samples - 1) / chunk_samples;
    }
};

/// Consecutive samples as stored, not normalised.
struct RawChunk {
    std::int64_t first_sample = 0;
    std::int64_t samples = 0;
    std::vector<std::byte> data;       ///< samples * sample_bytes(), row-major
    std::vector<std::int32_t> labels;  ///< [samples]
};

/// A source of whole chunks of labelled samples. Thread safe: an implementation over HDF5 passes
/// the read to the process's one HDF5 thread.
class SampleSource {
public:
    SampleSource() = default;
    SampleSource(const SampleSource&) = delete;
    SampleSource& operator=(const SampleSource&) = delete;
    virtual ~SampleSource() = default;
    [[nodiscard]] virtual const SampleSetInfo& info() const = 0;
    /// Name of the source for messages: a file and its group.
    [[nodiscard]] virtual std::string where() const { return info().source; }
    /// Reads chunk `index` in [0, info().chunks()). Blocks. Errors: FileError.
    [[nodiscard]] virtual RawChunk read_chunk(std::int64_t index) = 0;
};

}  // namespace cohort
