#include "data/loader/loader_cache.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

ChunkCache::ChunkCache(std::shared_ptr<SampleSource> source, std::size_t capacity_bytes)
    : source_(std::move(source)), capacity_bytes_(capacity_bytes) {
}

std::shared_ptr<const RawChunk> ChunkCache::get(std::int64_t index) {
    if (const auto found = by_index_.find(index); found != by_index_.end()) {
        entries_.splice(entries_.begin(), entries_, found->second);
        return entries_.front().second;
    }
    std::shared_ptr<const RawChunk> chunk = read(index);
    entries_.emplace_front(index, chunk);
    by_index_[index] = entries_.begin();
    bytes_ += chunk->data.size();
    while (bytes_ > capacity_bytes_ && entries_.size() > 1) {
        bytes_ -= entries_.back().second->data.size();
        by_index_.erase(entries_.back().first);
        entries_.pop_back();
    }
    return chunk;
}

std::shared_ptr<const RawChunk> ChunkCache::read(std::int64_t index) {
    const SampleSetInfo& info = source_->info();
    auto chunk = std::make_shared<const RawChunk>(source_->read_chunk(index));
    const std::int64_t first = index * info.chunk_samples;
    const std::int64_t count = std::min(info.chunk_samples, info.samples - first);
    if (chunk->first_sample != first || chunk->samples != count ||
        chunk->data.size() != static_cast<std::size_t>(count) * info.sample_bytes() ||
        chunk->labels.size() != static_cast<std::size_t>(count)) {
        fail<FileError>(
            {.where = info.source,
             .what = fmt::format("chunk {} is not what the set's description says", index),
             .expected = fmt::format("{} samples from {}, {} bytes each", count, first,
                                     info.sample_bytes()),
             .got = fmt::format("{} samples from {}, {} bytes, {} labels", chunk->samples,
                                chunk->first_sample, chunk->data.size(), chunk->labels.size())});
    }
    return chunk;
}

}  // namespace cohort
