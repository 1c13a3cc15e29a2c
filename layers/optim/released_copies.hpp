#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

namespace cohort {

/// The parameters that each worker was sent and may still compute on, for the delay compensation.
/// At most kMost per worker: the oldest are dropped first.
class ReleasedCopies {
public:
    static constexpr std::size_t kMost = 4;

    void put(int worker, std::int64_t version, std::shared_ptr<const float> values);
    /// The parameters sent to the worker as `version`, for a push computed on them; these and older
    /// parameters are forgotten. Null when they are not known.
    [[nodiscard]] std::shared_ptr<const float> take(int worker, std::int64_t version);
    void clear() noexcept { sent_.clear(); }

private:
    struct Copy {
        std::int64_t version = 0;
        int sent = 1;  ///< number of times sent without a push computed on them
        std::shared_ptr<const float> values;
    };
    std::map<int, std::deque<Copy>> sent_;  ///< by worker, versions not descending
};

}  // namespace cohort
