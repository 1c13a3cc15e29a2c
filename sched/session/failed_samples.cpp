#include "sched/session/failed_samples.hpp"

#include <algorithm>
#include <iterator>

namespace cohort {
namespace {

std::vector<std::int64_t> common(const std::vector<std::int64_t>& a,
                                 const std::vector<std::int64_t>& b) {
    std::vector<std::int64_t> both;
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    return both;
}

}  // namespace

void FailedSamples::failed(std::span<const std::int64_t> samples) {
    failures_.push_back({{samples.begin(), samples.end()}, finite_});
    std::ranges::sort(failures_.back().samples);
    if (failures_.size() > kMost) {
        failures_.pop_front();
    }
}

/// Mini-batches may be cut differently from failure to failure: what is in all of them is to blame.
FailedSamples::Again FailedSamples::again() const {
    Again again;
    if (failures_.empty()) {
        return again;
    }
    const Failure& newest = failures_.back();
    std::vector<std::int64_t> suspects = newest.samples;
    std::int64_t first = newest.finite;
    again.times = 1;
    for (auto failure = std::next(failures_.rbegin()); failure != failures_.rend(); ++failure) {
        std::vector<std::int64_t> both = common(suspects, failure->samples);
        if (!both.empty()) {
            suspects = std::move(both);
            first = failure->finite;
            ++again.times;
        }
    }
    if (again.times > 1) {
        again.samples = std::move(suspects);
        again.others_finite = newest.finite > first;
    }
    return again;
}

}  // namespace cohort
