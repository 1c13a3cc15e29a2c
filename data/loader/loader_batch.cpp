#include "data/loader/loader_batch.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kAlign = 64;

constexpr std::size_t round_up(std::size_t bytes) {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}

/// Lays arrays out one after another.
class Places {
public:
    std::size_t add(std::size_t bytes) { return std::exchange(end_, end_ + round_up(bytes)); }
    [[nodiscard]] std::size_t end() const { return end_; }

private:
    std::size_t end_ = 0;
};

std::uint64_t next_serial() {
    static std::atomic<std::uint64_t> given{0};
    return ++given;
}

}  // namespace

std::shared_ptr<void> allocate_aligned(std::size_t bytes) {
    constexpr auto kAlignment = std::align_val_t{kAlign};
    return {::operator new(bytes, kAlignment),
            [](void* memory) { ::operator delete(memory, kAlignment); }};
}

BatchMemory BatchPool::take(std::size_t bytes) {
    {
        const std::scoped_lock lock(mutex_);
        while (!free_.empty()) {
            BatchMemory memory = std::move(free_.back());
            free_.pop_back();
            if (memory.bytes >= bytes) {
                return memory;
            }
        }
    }
    return {allocator_(bytes), bytes};
}

void BatchPool::give_back(BatchMemory memory) noexcept {
    const std::scoped_lock lock(mutex_);
    if (memory.data && free_.size() < keep_) {
        free_.push_back(std::move(memory));
    }
}

LoadedBatch::Content::Content(const Lease& for_lease, const SampleSetInfo& info,
                              std::span<const float> scales, std::shared_ptr<BatchPool> from)
    : serial(next_serial()), lease(for_lease), pool(std::move(from)) {
    const std::size_t count = lease.samples.size();
    const std::size_t values = count * static_cast<std::size_t>(info.sample_elements());
    const std::size_t label_count = count * static_cast<std::size_t>(info.positions());
    const std::size_t target_count = count * static_cast<std::size_t>(info.targets);
    const bool as_stored = !scales.empty();
    const std::size_t value_bytes = as_stored ? values : values * sizeof(float);
    Places places;
    const std::size_t values_at = places.add(value_bytes);
    const std::size_t labels_at = places.add(label_count * sizeof(std::int32_t));
    const std::size_t targets_at = places.add(target_count * sizeof(float));
    const std::size_t ids_at = places.add(count * sizeof(std::int64_t));
    const std::size_t crops_at = places.add(as_stored ? count * sizeof(ImageCrop) : 0);
    const std::size_t scales_at = places.add(scales.size_bytes());
    memory = pool->take(places.end());
    auto* base = static_cast<std::byte*>(memory.data.get());
    if (as_stored) {
        stored_values = {reinterpret_cast<std::uint8_t*>(base + values_at), values};
        crops = {reinterpret_cast<ImageCrop*>(base + crops_at), count};
        auto* to = reinterpret_cast<float*>(base + scales_at);
        std::ranges::copy(scales, to);
        stored = {.values = stored_values.data(),
                  .crops = crops.data(),
                  .scales = to,
                  .channels = static_cast<std::int64_t>(scales.size() / 2),
                  .elements = info.sample_elements()};
    } else if (info.tokens()) {
        tokens = {reinterpret_cast<std::int32_t*>(base + values_at), values};
    } else {
        samples = {reinterpret_cast<float*>(base + values_at), values};
    }
    labels = {reinterpret_cast<std::int32_t*>(base + labels_at), label_count};
    targets = {reinterpret_cast<float*>(base + targets_at), target_count};
    ids = {reinterpret_cast<std::int64_t*>(base + ids_at), count};
    std::ranges::copy(lease.samples, ids.begin());
}

LoadedBatch::LoadedBatch(std::unique_ptr<Content> content) noexcept : content_(std::move(content)) {
}
LoadedBatch::LoadedBatch(LoadedBatch&&) noexcept = default;
LoadedBatch& LoadedBatch::operator=(LoadedBatch&&) noexcept = default;
LoadedBatch::~LoadedBatch() = default;

const Lease& LoadedBatch::lease() const noexcept {
    return content_->lease;
}
std::uint64_t LoadedBatch::serial() const noexcept {
    return content_->serial;
}
const StoredSamples& LoadedBatch::stored() const noexcept {
    return content_->stored;
}
std::span<const std::int64_t> LoadedBatch::sample_ids() const noexcept {
    return content_->ids;
}
std::span<const float> LoadedBatch::samples() const noexcept {
    return content_->samples;
}
std::span<const std::int32_t> LoadedBatch::tokens() const noexcept {
    return content_->tokens;
}
std::span<const std::int32_t> LoadedBatch::labels() const noexcept {
    return content_->labels;
}
std::span<const float> LoadedBatch::targets() const noexcept {
    return content_->targets;
}

BatchBuilder::BatchBuilder(const SampleSetInfo& info, const LoaderOptions& options)
    : info_(info),
      transform_(make_transform(info, options.augment)),
      scales_(options.stored && info.type == SampleType::kU8 ? transform_->scales()
                                                             : std::vector<float>{}),
      pool_(std::make_shared<BatchPool>(options.allocator,
                                        static_cast<std::size_t>(options.prefetch) + 2)) {
}

LoadedBatch BatchBuilder::build(const Lease& lease, const std::vector<std::int64_t>& chunk_ids,
                                const std::vector<std::shared_ptr<const RawChunk>>& chunks) const {
    auto content = std::make_unique<LoadedBatch::Content>(lease, info_, scales_, pool_);
    const std::int64_t elements = info_.sample_elements();
    const std::int64_t chunk_samples = info_.chunk_samples;
    for (std::size_t i = 0; i < lease.samples.size(); ++i) {
        const std::int64_t id = lease.samples[i];
        const auto place = std::ranges::lower_bound(chunk_ids, id / chunk_samples);
        const RawChunk& chunk = *chunks[static_cast<std::size_t>(place - chunk_ids.begin())];
        const auto within = static_cast<std::size_t>(id - chunk.first_sample);
        const std::byte* stored = chunk.data.data() + within * info_.sample_bytes();
        const std::int64_t to = static_cast<std::int64_t>(i) * elements;
        if (transform_) {
            if (scales_.empty()) {
                transform_->apply(stored, id, lease.epoch, content->samples.data() + to);
            } else {
                std::memcpy(content->stored_values.data() + to, stored, info_.sample_bytes());
                content->crops[i] = transform_->crop_of(id, lease.epoch);
            }
            if (info_.targets > 0) {
                const auto targets = static_cast<std::size_t>(info_.targets);
                standardise_targets(chunk.targets.data() + within * targets, info_,
                                    content->targets.data() + i * targets);
            } else {
                content->labels[i] = chunk.labels[within];
            }
        } else {
            split_window(stored, info_.type, elements, content->tokens.data() + to,
                         content->labels.data() + to);
        }
    }
    return LoadedBatch(std::move(content));
}

}  // namespace cohort
