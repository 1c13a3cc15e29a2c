#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

/// A half-open range of floats in a buffer.
struct FloatRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        return static_cast<std::uint64_t>(size()) * sizeof(float);
    }
};

/// How a buffer is cut into buckets. They count from the end of the buffer, the order in which
/// they leave; all buckets but the first have the full size, so that every bucket begins aligned.
struct Buckets {
    std::int64_t floats = 0;   ///< of the buffer, > 0
    std::int64_t size = 1024;  ///< floats of a full bucket, a multiple of 16

    Buckets() = default;
    Buckets(std::int64_t buffer_floats, std::int64_t bucket_bytes) : floats(buffer_floats) {
        const auto wanted = bucket_bytes / static_cast<std::int64_t>(sizeof(float));
        size = std::max<std::int64_t>(16, wanted / 16 * 16);
    }
    [[nodiscard]] std::int64_t count() const noexcept { return (floats + size - 1) / size; }
    [[nodiscard]] FloatRange range(std::int64_t bucket) const noexcept {
        const std::int64_t begin = (count() - 1 - bucket) * size;
        return {begin, std::min(floats, begin + size)};
    }
    /// How many buckets lie in [begin, end of the buffer).
    [[nodiscard]] std::int64_t behind(std::int64_t begin) const noexcept {
        return count() - (begin + size - 1) / size;
    }
};

/// Which part of a buffer is final, told in ranges in any order.
class ReadyRanges {
public:
    explicit ReadyRanges(std::int64_t floats) : floats_(floats), frontier_(floats) {}

    void clear() {
        ranges_.clear();
        frontier_ = floats_;
    }
    /// Errors: UsageError when it is outside of the buffer.
    void add(std::int64_t begin, std::int64_t end) {
        if (begin < 0 || end < begin || end > floats_) {
            fail<UsageError>({.where = "AllReduce::ready",
                              .what = "a range outside of the buffer",
                              .expected = "0.." + std::to_string(floats_),
                              .got = std::to_string(begin) + ".." + std::to_string(end)});
        }
        if (begin == end) {
            return;
        }
        if (end < frontier_) {
            auto& known_end = ranges_[begin];
            known_end = std::max(known_end, end);
            return;
        }
        frontier_ = std::min(frontier_, begin);
        bool grew = true;
        while (grew) {
            grew = std::erase_if(ranges_, [this](const auto& range) {
                       if (range.second < frontier_) {
                           return false;
                       }
                       frontier_ = std::min(frontier_, range.first);
                       return true;
                   }) > 0;
        }
    }
    /// All from here to the end of the buffer is final.
    [[nodiscard]] std::int64_t frontier() const noexcept { return frontier_; }

private:
    std::int64_t floats_;
    std::int64_t frontier_;
    std::map<std::int64_t, std::int64_t> ranges_;  ///< before the frontier: begin -> end
};

}  // namespace cohort
