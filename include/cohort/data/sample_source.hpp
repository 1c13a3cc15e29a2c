#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/task.hpp"
#include "cohort/core/words.hpp"
#include "cohort/data/vocabulary.hpp"

namespace cohort {

/// How the values of samples are stored: numbers (uint8, float32), or tokens of text (uint16,
/// int32).
enum class SampleType { kU8, kF32, kU16, kI32 };

template <>
inline constexpr auto kWords<SampleType> = std::to_array<std::string_view>({"uint8", "float32",
                                                                            "uint16", "int32"});

/// Whether a sample is a window of tokens of text.
[[nodiscard]] constexpr bool holds_tokens(SampleType type) noexcept {
    return type == SampleType::kU16 || type == SampleType::kI32;
}

/// Of a stored value.
[[nodiscard]] constexpr std::size_t value_bytes(SampleType type) noexcept {
    return type == SampleType::kU8 ? 1 : type == SampleType::kU16 ? 2 : 4;
}

/// Facts about a set of samples that are known without reading them.
struct SampleSetInfo {
    /// What a network sees of a sample: [C,H,W], [F], or the positions [T] of a window of tokens,
    /// which is stored as T+1 tokens: its labels are the same tokens, shifted by one.
    std::vector<std::int64_t> sample_shape;
    SampleType type = SampleType::kU8;
    std::int64_t samples = 0;
    std::int64_t chunk_samples = 0;  ///< samples per storage chunk; the last may be shorter
    std::int64_t classes = 0;        ///< of tokens: those of the vocabulary; of targets: 0
    std::int64_t targets = 0;        ///< numbers to predict of a sample; 0: it has labels instead
    std::vector<float> mean;  ///< [sample_shape[0]], in stored units (u8: 0..255); tokens: empty
    std::vector<float> std;   ///< [sample_shape[0]], > 0; tokens: empty
    std::vector<float> target_mean;                ///< [targets], of the train set
    std::vector<float> target_std;                 ///< [targets], > 0
    std::shared_ptr<const Vocabulary> vocabulary;  ///< of tokens, where the file has it
    std::string source;                            ///< where the data came from, for people
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
    [[nodiscard]] bool tokens() const noexcept { return holds_tokens(type); }
    [[nodiscard]] Task task() const noexcept {
        return tokens() ? Task::kLanguage : targets > 0 ? Task::kRegression : Task::kClassification;
    }
    /// Labels of a sample: one, or one for each token; none beside targets.
    [[nodiscard]] std::int64_t positions() const noexcept {
        return tokens() ? sample_shape.front() : targets > 0 ? 0 : 1;
    }
    [[nodiscard]] std::vector<std::int64_t> stored_shape() const {
        return tokens() ? std::vector{sample_shape.front() + 1} : sample_shape;
    }
    /// As stored.
    [[nodiscard]] std::size_t sample_bytes() const noexcept {
        return static_cast<std::size_t>(sample_elements() + (tokens() ? 1 : 0)) * value_bytes(type);
    }
    [[nodiscard]] std::int64_t chunks() const noexcept {
        return (samples + chunk_samples - 1) / chunk_samples;
    }
};

/// Consecutive samples as stored, not normalised.
struct RawChunk {
    std::int64_t first_sample = 0;
    std::int64_t samples = 0;
    std::vector<std::byte> data;  ///< samples * sample_bytes(), row-major
    /// [samples]; empty for tokens, which `data` holds, and for targets.
    std::vector<std::int32_t> labels;
    std::vector<float> targets;  ///< [samples, info.targets], as stored
};

/// A stored window of tokens as a network sees it: each position's token, and the token that
/// follows it as its label. @param stored  positions + 1 tokens  @param tokens, labels [positions]
void split_window(const std::byte* stored, SampleType type, std::int64_t positions,
                  std::int32_t* tokens, std::int32_t* labels);

/// The targets of a sample as a network learns them: (stored - mean) / std. Their mean squared
/// error is in units of the targets' variance over the train set. @param stored, targets
/// [info.targets]
void standardise_targets(const float* stored, const SampleSetInfo& info, float* targets);

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
