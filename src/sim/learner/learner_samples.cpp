#include "sim/learner/learner_samples.hpp"

namespace cohort {

BatchView SampleBatch::part(std::int64_t begin, std::int64_t end) const noexcept {
    const auto each = static_cast<std::int64_t>(samples.size()) / size();
    return {.samples = samples.data() + begin * each,
            .labels = labels.data() + begin,
            .sample_ids = ids.data() + begin,
            .size = end - begin,
            .epoch = epoch};
}

SampleMemory::SampleMemory(SampleSource& source, const AugmentOptions& augment)
    : info_(source.info()), transform_(info_, augment) {
    chunks_.reserve(static_cast<std::size_t>(info_.chunks()));
    for (std::int64_t chunk = 0; chunk < info_.chunks(); ++chunk) {
        chunks_.push_back(source.read_chunk(chunk));
    }
}

void SampleMemory::load(std::span<const std::int64_t> ids, std::uint32_t epoch,
                        SampleBatch& batch) const {
    const std::int64_t elements = info_.sample_elements();
    batch.ids.assign(ids.begin(), ids.end());
    batch.epoch = epoch;
    batch.labels.resize(ids.size());
    batch.samples.resize(ids.size() * static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const RawChunk& chunk = chunks_[static_cast<std::size_t>(ids[i] / info_.chunk_samples)];
        const auto within = static_cast<std::size_t>(ids[i] - chunk.first_sample);
        transform_.apply(chunk.data.data() + within * info_.sample_bytes(), ids[i], epoch,
                         batch.samples.data() + static_cast<std::int64_t>(i) * elements);
        batch.labels[i] = chunk.labels[within];
    }
}

}  // namespace cohort
