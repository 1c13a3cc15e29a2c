#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/data/sample_source.hpp"

namespace cohort {

struct OrderOptions {
    std::uint64_t seed = 0;
    bool shuffle = true;             ///< false: samples in stored order
    std::int64_t window_chunks = 0;  ///< chunks shuffled together; 0: default_window_chunks
};

/// Chunks per shuffle window: all of them when the set has at most 64 MiB, else as many as fit in
/// 32 MiB (one window in use and the next one read ahead make 64), at least one.
[[nodiscard]] std::int64_t default_window_chunks(const SampleSetInfo& info) noexcept;

/// The order of one epoch: a permutation of all samples, a pure function of (set size, options,
/// epoch). The number of workers and the sizes of leases play no part.
///
/// The chunks are permuted, cut into windows of nearly equal size (at most window_chunks), and the
/// samples of each window are permuted among themselves. So whole chunks are read once per epoch,
/// only one window must be in memory, and any position is found by computing one window again.
class EpochOrder {
public:
    /// Errors: UsageError for an empty set or a negative window.
    EpochOrder(const SampleSetInfo& info, const OrderOptions& options, std::uint32_t epoch);

    [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }
    [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
    [[nodiscard]] std::int64_t windows() const noexcept {
        return static_cast<std::int64_t>(window_chunk_.size()) - 1;
    }
    /// The window that position (0 <= position < samples()) lies in.
    [[nodiscard]] std::int64_t window_of(std::int64_t position) const;
    /// First position of `window`; window_begin(windows()) is samples().
    [[nodiscard]] std::int64_t window_begin(std::int64_t window) const;
    /// Chunks whose samples make up `window`.
    [[nodiscard]] std::span<const std::int64_t> window_chunks(std::int64_t window) const;
    /// Sample ids of positions [window_begin(window), window_begin(window + 1)).
    [[nodiscard]] std::vector<std::int64_t> window_samples(std::int64_t window) const;

private:
    std::uint64_t seed_;
    bool shuffle_;
    std::uint32_t epoch_;
    std::int64_t samples_;
    std::int64_t chunk_samples_;
    std::vector<std::int64_t> chunks_;        // in the order of this epoch
    std::vector<std::int64_t> window_chunk_;  // first entry of chunks_ per window, plus the end
    std::vector<std::int64_t> window_begin_;  // first position per window, plus the end
};

/// Positions [position, position + count) of an epoch.
struct LeaseSlice {
    std::uint32_t epoch = 0;
    std::int64_t position = 0;
    std::int64_t count = 0;
    friend bool operator==(const LeaseSlice&, const LeaseSlice&) = default;
};

/// Turns slices of an epoch's order into sample ids: the coordinator keeps positions only, and a
/// worker finds the samples of its lease here. Pure and not thread safe. Remembers the last shuffle
/// window, so slices in rising order cost a copy each.
class SliceReader {
public:
    /// Errors: those of EpochOrder.
    SliceReader(const SampleSetInfo& info, const OrderOptions& order);

    /// Sample ids of the slice, [slice.count]. Errors: UsageError for a slice outside the epoch or
    /// without samples.
    [[nodiscard]] std::vector<std::int64_t> samples(const LeaseSlice& slice);

private:
    SampleSetInfo info_;
    OrderOptions options_;
    EpochOrder order_;
    std::int64_t window_ = -1;  // of order_, remembered below; -1: none
    std::vector<std::int64_t> window_samples_;
};

}  // namespace cohort
