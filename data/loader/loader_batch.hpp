#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cohort/data/loader.hpp"

namespace cohort {

/// A block of host memory and its capacity.
struct BatchMemory {
    std::shared_ptr<void> data;
    std::size_t bytes = 0;
};

/// Keeps the memory of batches that are done for the next ones. Thread safe.
class BatchPool {
public:
    BatchPool(HostAllocator allocator, std::size_t keep)
        : allocator_(std::move(allocator)), keep_(keep) {
        free_.reserve(keep);
    }

    /// At least `bytes`. Errors: those of the allocator.
    [[nodiscard]] BatchMemory take(std::size_t bytes);
    void give_back(BatchMemory memory) noexcept;

private:
    HostAllocator allocator_;
    std::size_t keep_;
    std::mutex mutex_;
    std::vector<BatchMemory> free_;
};

/// Samples [N, sample shape], or tokens [N,T] or stored samples in their place, then labels [N], of
/// tokens [N,T], or targets [N,D], ids [N], and of stored samples crops [N] and scales; each from a
/// multiple of 64 bytes on.
struct LoadedBatch::Content {
    std::uint64_t serial;
    Lease lease;
    std::shared_ptr<BatchPool> pool;
    BatchMemory memory;
    std::span<float> samples;
    std::span<std::int32_t> tokens;
    std::span<std::int32_t> labels;
    std::span<float> targets;
    std::span<std::int64_t> ids;
    StoredSamples stored;
    std::span<std::uint8_t> stored_values;
    std::span<ImageCrop> crops;

    /// @param scales  of samples that stay as they are stored; empty: they do not
    Content(const Lease& for_lease, const SampleSetInfo& info, std::span<const float> scales,
            std::shared_ptr<BatchPool> from);
    Content(const Content&) = delete;
    Content& operator=(const Content&) = delete;
    ~Content() { pool->give_back(std::move(memory)); }
};

struct Loader::Job {
    Lease lease;
    std::vector<std::int64_t> chunk_ids;                  ///< distinct, increasing
    std::vector<std::shared_ptr<const RawChunk>> chunks;  ///< same order
    State state = State::kQueued;
    bool discarded = false;
    std::optional<LoadedBatch> batch;
    std::exception_ptr error;
};

/// Makes batches of samples from their chunks. Thread safe.
class BatchBuilder {
public:
    BatchBuilder(const SampleSetInfo& info, const LoaderOptions& options);

    /// @param chunk_ids  of the lease's samples, increasing  @param chunks  in the same order
    [[nodiscard]] LoadedBatch build(
        const Lease& lease, const std::vector<std::int64_t>& chunk_ids,
        const std::vector<std::shared_ptr<const RawChunk>>& chunks) const;

private:
    const SampleSetInfo& info_;
    std::optional<SampleTransform> transform_;  ///< none of tokens
    std::vector<float> scales_;                 ///< of samples that stay as they are stored
    std::shared_ptr<BatchPool> pool_;
};

}  // namespace cohort
