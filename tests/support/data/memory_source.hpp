#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/data/sample_source.hpp"

namespace cohort::test {

/// A set of `samples` samples of `shape` in chunks of `chunk_samples`; channel c has mean 100+10c
/// and std 50+5c.
inline SampleSetInfo set_info(std::vector<std::int64_t> shape, SampleType type,
                              std::int64_t samples, std::int64_t chunk_samples) {
    SampleSetInfo info;
    info.sample_shape = std::move(shape);
    info.type = type;
    info.samples = samples;
    info.chunk_samples = chunk_samples;
    info.classes = 10;
    const std::int64_t channels = info.sample_shape.size() == 3 ? info.sample_shape[0] : 1;
    for (std::int64_t c = 0; c < channels; ++c) {
        info.mean.push_back(100 + 10 * static_cast<float>(c));
        info.std.push_back(50 + 5 * static_cast<float>(c));
    }
    info.source = "memory";
    return info;
}

/// Random samples in memory; sample i has label i mod 10, unless it is a window of tokens.
class MemorySource final : public SampleSource {
public:
    explicit MemorySource(SampleSetInfo info) : info_(std::move(info)) {
        Rng rng(3, RngPurpose::kTest);
        data_.resize(static_cast<std::size_t>(info_.samples) * info_.sample_bytes());
        const std::size_t step = info_.type == SampleType::kF32 ? sizeof(float) : 1;
        for (std::size_t at = 0; at < data_.size(); at += step) {
            const std::uint32_t word = rng.next_u32();
            if (step == 1) {
                data_[at] = static_cast<std::byte>(word >> 24);
            } else {
                const float value = static_cast<float>(word >> 8) * 1e-5F;
                std::memcpy(data_.data() + at, &value, sizeof(value));
            }
        }
    }

    [[nodiscard]] const SampleSetInfo& info() const override { return info_; }

    [[nodiscard]] RawChunk read_chunk(std::int64_t index) override {
        ++reads;
        if (before_read) {
            before_read(index);
        }
        RawChunk chunk;
        chunk.first_sample = index * info_.chunk_samples;
        chunk.samples = std::min(info_.chunk_samples, info_.samples - chunk.first_sample);
        const std::byte* first = sample(chunk.first_sample);
        chunk.data.assign(first,
                          first + static_cast<std::size_t>(chunk.samples) * info_.sample_bytes());
        for (std::int64_t i = 0; i < chunk.samples && !info_.tokens(); ++i) {
            chunk.labels.push_back(label(chunk.first_sample + i));
        }
        return chunk;
    }

    [[nodiscard]] const std::byte* sample(std::int64_t id) const {
        return data_.data() + static_cast<std::size_t>(id) * info_.sample_bytes();
    }
    [[nodiscard]] static std::int32_t label(std::int64_t id) {
        return static_cast<std::int32_t>(id % 10);
    }

    std::function<void(std::int64_t index)> before_read;  ///< set before the first read
    std::atomic<int> reads{0};

private:
    SampleSetInfo info_;
    std::vector<std::byte> data_;
};

}  // namespace cohort::test
