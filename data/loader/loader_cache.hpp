#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

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

}  // namespace cohort
