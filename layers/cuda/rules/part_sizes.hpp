#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace cohort::cuda {

/// Batches that are worked on in parts: as many as fit of `most` samples, then the rest. What is
/// made for a part serves all sizes of batches that have such a part. Pure.
class PartSizes {
public:
    explicit PartSizes(std::int64_t most) : most_(most) {}

    [[nodiscard]] std::int64_t most() const noexcept { return most_; }
    /// The different parts of a batch, in samples. From now on the size is one of those prepared.
    std::vector<std::int64_t> add(std::int64_t batch) {
        batches_.insert(batch);
        return parts_of(batch);
    }
    /// The size is prepared no longer. @return its parts that no prepared size has
    std::vector<std::int64_t> remove(std::int64_t batch) {
        batches_.erase(batch);
        std::vector<std::int64_t> unused = parts_of(batch);
        std::erase_if(unused, [this](std::int64_t part) {
            return std::ranges::any_of(batches_, [&](std::int64_t other) {
                const std::vector<std::int64_t> parts = parts_of(other);
                return std::ranges::find(parts, part) != parts.end();
            });
        });
        return unused;
    }

private:
    [[nodiscard]] std::vector<std::int64_t> parts_of(std::int64_t batch) const {
        std::vector<std::int64_t> parts{std::min(batch, most_)};
        if (batch > most_ && batch % most_ != 0) {
            parts.push_back(batch % most_);
        }
        return parts;
    }

    std::int64_t most_;
    std::set<std::int64_t> batches_;
};

}  // namespace cohort::cuda
