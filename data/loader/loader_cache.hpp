#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cohort/data/loader.hpp"
#include "cohort/data/sample_source.hpp"

namespace cohort {

/// The most recently used chunks of a source, up to a number of bytes. Chunks that someone still
/// holds stay alive beyond their place here. For one thread.
class ChunkCache {
public:
    ChunkCache(std::shared_ptr<SampleSource> source, std::size_t capacity_bytes);

    /// From the cache or read now. Errors: those of the source; FileError when it returns
    /// something else than what it was asked for.
    [[nodiscard]] std::shared_ptr<const RawChunk> get(std::int64_t index);

private:
    using Entry = std::pair<std::int64_t, std::shared_ptr<const RawChunk>>;

    [[nodiscard]] std::shared_ptr<const RawChunk> read(std::int64_t index);

    std::shared_ptr<SampleSource> source_;
    std::size_t capacity_bytes_;
    std::size_t bytes_ = 0;
    std::list<Entry> entries_;  // most recently used first
    std::unordered_map<std::int64_t, std::list<Entry>::iterator> by_index_;
};

/// Reads chunks for leases, and in between those that the next leases will need. For one thread.
class ChunkReader {
public:
    ChunkReader(const std::shared_ptr<SampleSource>& source, const LoaderOptions& options);

    /// See ChunkCache::get.
    [[nodiscard]] std::shared_ptr<const RawChunk> get(std::int64_t index) {
        return cache_.get(index);
    }
    /// What is to be read ahead follows from the newest lease and the order of samples.
    void plan_ahead(const Lease& lease);
    [[nodiscard]] bool has_ahead() const noexcept { return !ahead_.empty(); }
    /// The next chunk to be read ahead; there is one.
    [[nodiscard]] std::int64_t take_ahead();
    void forget_ahead() noexcept { ahead_.clear(); }

private:
    const SampleSetInfo& info_;
    std::optional<OrderOptions> options_;  ///< none: leases come in no known order
    ChunkCache cache_;
    std::deque<std::int64_t> ahead_;
    std::optional<EpochOrder> order_;
    std::int64_t window_ = -1;
};

}  // namespace cohort
