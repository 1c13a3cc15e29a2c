#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

namespace cohort {

/// The parameters that each worker was sent and may still compute on, for the delay compensation.
/// At most kMost per worker: the oldest go first.
class ReleasedCopies {
public:
    static constexpr std::size_t kMost = 4;

    void put(int worker, std::int64_t version, std::shared_ptr<const float> values);
    /// What the worker was sent as `version`, for a push that it has computed on it: it and
    /// older ones are forgotten. Null when it is not known.
    [[nodiscard]] std::shared_ptr<const float> take(int worker, std::int64_t version);
    void clear() noexcept { sent_.clear(); }

private:
    struct Copy {
        std::int64_t version = 0;
        int sent = 1;  ///< how often, without a push that was computed on it
        std::shared_ptr<const float> values;
    };
    std::map<int, std::deque<Copy>> sent_;  ///< by worker, versions not descending
};

}  // namespace cohort
