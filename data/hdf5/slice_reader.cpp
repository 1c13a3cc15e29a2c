#include "cohort/data/slice_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

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
