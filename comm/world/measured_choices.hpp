#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace cohort {

/// The faster one of two algorithms of all-reduce (values of AllReduceAlgorithm), by the size of a
/// bucket and whether the members were on several nodes. A choice holds for as many members and for
/// fewer, so that a ring that has lost a member, or gets it back, need not measure again. Thread
/// safe.
class MeasuredChoices {
public:
    struct Key {
        std::int64_t bucket_floats = 0;
        bool several_nodes = false;
        friend auto operator<=>(const Key&, const Key&) = default;
    };
    /// What was measured with more members stays.
    void keep(const Key& key, std::size_t members, int algorithm) {
        const std::lock_guard lock(mutex_);
        std::pair<std::size_t, int>& known = found_[key];
        known = std::max(known, {members, algorithm},
                         [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    /// Nothing: it was not measured, or with fewer members.
    [[nodiscard]] std::optional<int> find(const Key& key, std::size_t members) const {
        const std::lock_guard lock(mutex_);
        const auto found = found_.find(key);
        return found == found_.end() || found->second.first < members
                   ? std::nullopt
                   : std::optional(found->second.second);
    }

private:
    mutable std::mutex mutex_;
    std::map<Key, std::pair<std::size_t, int>> found_;  ///< members, algorithm
};

}  // namespace cohort
