#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cohort/data/augment.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/replica.hpp"

namespace cohort {

/// A mini-batch with its memory, which is used again.
struct SampleBatch {
    std::vector<float> samples;
    std::vector<std::int32_t> labels;
    std::vector<std::int64_t> ids;
    std::uint32_t epoch = 0;

    [[nodiscard]] std::int64_t size() const noexcept {
        return static_cast<std::int64_t>(ids.size());
    }
    [[nodiscard]] BatchView view() const noexcept { return part(0, size()); }
    /// Samples [begin, end) of it.
    [[nodiscard]] BatchView part(std::int64_t begin, std::int64_t end) const noexcept;
};

/// All samples of a set as they are stored, in memory; mini-batches are what Loader makes of the
/// same samples. Immutable, so thread safe.
class SampleMemory {
public:
    /// Reads the whole set. Errors: FileError, ShapeError, UsageError.
    SampleMemory(SampleSource& source, const AugmentOptions& augment);

    [[nodiscard]] const SampleSetInfo& info() const noexcept { return info_; }
    /// Fills in samples and labels of `ids`, normalised and augmented for `epoch`.
    void load(std::span<const std::int64_t> ids, std::uint32_t epoch, SampleBatch& batch) const;

private:
    SampleSetInfo info_;
    SampleTransform transform_;
    std::vector<RawChunk> chunks_;
};

}  // namespace cohort
