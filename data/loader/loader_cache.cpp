#include "data/loader/loader_cache.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

std::size_t cache_capacity(const SampleSetInfo& info, const LoaderOptions& options) {
    constexpr std::size_t kDefault = std::size_t{64} << 20;
    if (options.cache_bytes > 0) {
        return options.cache_bytes;
    }
    if (!options.order) {
        return kDefault;
    }
    const std::int64_t asked = options.order->window_chunks;
    const std::int64_t window =
        std::min(info.chunks(), asked > 0 ? asked : default_window_chunks(info));
    return 2 * static_cast<std::size_t>(window * info.chunk_samples) * info.sample_bytes();
}

}  // namespace

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
        chunk->labels.size() !=
            static_cast<std::size_t>(info.task() == Task::kClassification ? count : 0) ||
        chunk->targets.size() != static_cast<std::size_t>(count * info.targets)) {
        fail<FileError>(
            {.where = info.source,
             .what = fmt::format("chunk {} is not what the set's description says", index),
             .expected = fmt::format("{} samples from {}, {} bytes each", count, first,
                                     info.sample_bytes()),
             .got = fmt::format("{} samples from {}, {} bytes, {} labels, {} targets",
                                chunk->samples, chunk->first_sample, chunk->data.size(),
                                chunk->labels.size(), chunk->targets.size())});
    }
    return chunk;
}

ChunkReader::ChunkReader(const std::shared_ptr<SampleSource>& source, const LoaderOptions& options)
    : info_(source->info()),
      options_(options.order),
      cache_(source, cache_capacity(source->info(), options)) {
}

std::int64_t ChunkReader::take_ahead() {
    const std::int64_t chunk = ahead_.front();
    ahead_.pop_front();
    return chunk;
}

void ChunkReader::plan_ahead(const Lease& lease) {
    if (!options_ || lease.position < 0 || lease.position >= info_.samples) {
        return;
    }
    // A lease that was returned and comes again from an earlier window changes no plan.
    if (order_ && lease.epoch < order_->epoch()) {
        return;
    }
    if (!order_ || lease.epoch > order_->epoch()) {
        order_.emplace(info_, *options_, lease.epoch);
        window_ = -1;
    }
    const std::int64_t last = std::min(lease.position + lease.size(), info_.samples) - 1;
    const std::int64_t window = order_->window_of(last);
    if (window <= window_) {
        return;
    }
    window_ = window;
    // This window first: chunks that are cached already become the most recently used.
    const std::span<const std::int64_t> now = order_->window_chunks(window);
    ahead_.assign(now.begin(), now.end());
    if (window + 1 < order_->windows()) {
        const std::span<const std::int64_t> then = order_->window_chunks(window + 1);
        ahead_.insert(ahead_.end(), then.begin(), then.end());
    } else if (order_->windows() > 1) {
        const EpochOrder following(info_, *options_, lease.epoch + 1);
        const std::span<const std::int64_t> then = following.window_chunks(0);
        ahead_.insert(ahead_.end(), then.begin(), then.end());
    }
}

}  // namespace cohort
