#include "cohort/data/order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"

namespace cohort {
namespace {

/// Fisher-Yates.
void permute(std::span<std::int64_t> values, Rng rng) {
    for (std::size_t left = values.size(); left > 1; --left) {
        std::swap(values[left - 1], values[rng.next_below(static_cast<std::uint32_t>(left))]);
    }
}

void check_set(const SampleSetInfo& info, const OrderOptions& options) {
    if (info.samples < 1 || info.chunk_samples < 1) {
        fail<UsageError>(
            {.where = "sample order",
             .what = "nothing to order",
             .expected = "at least one sample in chunks of at least one",
             .got = fmt::format("{} samples in chunks of {}", info.samples, info.chunk_samples)});
    }
    if (options.window_chunks < 0) {
        fail<UsageError>({.where = "shuffle window",
                          .what = "negative size",
                          .expected = "chunks, or 0 for the default",
                          .got = fmt::format("{}", options.window_chunks)});
    }
}

}  // namespace

std::int64_t default_window_chunks(const SampleSetInfo& info) noexcept {
    constexpr std::int64_t kWholeSet = std::int64_t{64} << 20;
    constexpr std::int64_t kWindow = std::int64_t{32} << 20;
    const auto sample_bytes = static_cast<std::int64_t>(info.sample_bytes());
    if (info.samples * sample_bytes <= kWholeSet) {
        return info.chunks();
    }
    return std::max<std::int64_t>(1, kWindow / (info.chunk_samples * sample_bytes));
}

EpochOrder::EpochOrder(const SampleSetInfo& info, const OrderOptions& options, std::uint32_t epoch)
    : seed_(options.seed),
      shuffle_(options.shuffle),
      epoch_(epoch),
      samples_(info.samples),
      chunk_samples_(info.chunk_samples) {
    check_set(info, options);
    chunks_.resize(static_cast<std::size_t>(info.chunks()));
    std::iota(chunks_.begin(), chunks_.end(), std::int64_t{0});
    if (shuffle_) {
        permute(chunks_, Rng(seed_, RngPurpose::kChunkOrder, 0, epoch_));
    }
    const std::int64_t chunks = info.chunks();
    const std::int64_t most =
        options.window_chunks > 0 ? options.window_chunks : default_window_chunks(info);
    const std::int64_t count = (chunks + most - 1) / most;
    std::int64_t position = 0;
    for (std::int64_t window = 0; window < count; ++window) {
        window_chunk_.push_back(chunks * window / count);
        window_begin_.push_back(position);
        for (std::int64_t at = window_chunk_.back(); at < chunks * (window + 1) / count; ++at) {
            const std::int64_t first = chunks_[static_cast<std::size_t>(at)] * chunk_samples_;
            position += std::min(chunk_samples_, samples_ - first);
        }
    }
    window_chunk_.push_back(chunks);
    window_begin_.push_back(position);
}

std::int64_t EpochOrder::window_of(std::int64_t position) const {
    check_invariant(position >= 0 && position < samples_, "position inside the epoch");
    const auto after = std::ranges::upper_bound(window_begin_, position);
    return after - window_begin_.begin() - 1;
}

std::int64_t EpochOrder::window_begin(std::int64_t window) const {
    return window_begin_.at(static_cast<std::size_t>(window));
}

std::span<const std::int64_t> EpochOrder::window_chunks(std::int64_t window) const {
    const auto index = static_cast<std::size_t>(window);
    const std::int64_t first = window_chunk_.at(index);
    const std::int64_t last = window_chunk_.at(index + 1);
    return std::span(chunks_).subspan(static_cast<std::size_t>(first),
                                      static_cast<std::size_t>(last - first));
}

std::vector<std::int64_t> EpochOrder::window_samples(std::int64_t window) const {
    std::vector<std::int64_t> result;
    result.reserve(static_cast<std::size_t>(window_begin(window + 1) - window_begin(window)));
    for (const std::int64_t chunk : window_chunks(window)) {
        const std::int64_t first = chunk * chunk_samples_;
        const std::int64_t last = std::min(first + chunk_samples_, samples_);
        for (std::int64_t sample = first; sample < last; ++sample) {
            result.push_back(sample);
        }
    }
    if (shuffle_) {
        const auto stream = static_cast<std::uint64_t>(window);
        permute(result, Rng(seed_, RngPurpose::kWindowOrder, stream, epoch_));
    }
    return result;
}

SliceReader::SliceReader(const SampleSetInfo& info, const OrderOptions& order)
    : info_(info), options_(order), order_(info, order, 0) {
}

std::vector<std::int64_t> SliceReader::samples(const LeaseSlice& slice) {
    if (slice.position < 0 || slice.count < 1 || slice.count > info_.samples - slice.position) {
        fail<UsageError>({.where = "slice of an epoch",
                          .what = "not within the epoch",
                          .expected = fmt::format("samples among {}", info_.samples),
                          .got = fmt::format("{} from {}", slice.count, slice.position)});
    }
    if (order_.epoch() != slice.epoch) {
        order_ = EpochOrder(info_, options_, slice.epoch);
        window_ = -1;
    }
    std::vector<std::int64_t> ids;
    ids.reserve(static_cast<std::size_t>(slice.count));
    const std::int64_t end = slice.position + slice.count;
    for (std::int64_t at = slice.position; at < end;) {
        const std::int64_t window = order_.window_of(at);
        if (window != window_) {
            window_samples_ = order_.window_samples(window);
            window_ = window;
        }
        const std::int64_t begin = order_.window_begin(window);
        const std::int64_t stop = std::min(end, order_.window_begin(window + 1));
        ids.insert(ids.end(), window_samples_.begin() + (at - begin),
                   window_samples_.begin() + (stop - begin));
        at = stop;
    }
    return ids;
}

}  // namespace cohort
