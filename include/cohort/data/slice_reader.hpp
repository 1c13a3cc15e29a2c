#pragma once

#include <cstdint>
#include <vector>

#include "cohort/data/order.hpp"

namespace cohort {

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
