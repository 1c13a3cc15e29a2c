#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cohort/model/replica.hpp"

namespace cohort {

/// Passes on what it is told, and knows what was not announced.
class AnnouncedRanges final : public StepObserver {
public:
    explicit AnnouncedRanges(StepObserver& inner) : inner_(inner) {}
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        ranges_.emplace_back(begin, end);
        inner_.gradient_ready(begin, end);
    }
    bool should_interrupt() override { return inner_.should_interrupt(); }
    /// Announces what is left of `total` floats.
    void announce_rest(std::int64_t total) {
        constexpr std::int64_t kAlign = FlatLayout::kAlignment;
        std::sort(ranges_.rbegin(), ranges_.rend());
        for (const auto& [begin, end] : ranges_) {
            const std::int64_t after = (end + kAlign - 1) / kAlign * kAlign;
            if (after < total) {
                inner_.gradient_ready(after, total);
            }
            total = begin;
        }
        if (total > 0) {
            inner_.gradient_ready(0, total);
        }
    }

private:
    StepObserver& inner_;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
};

}  // namespace cohort
