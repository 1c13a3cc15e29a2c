#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace cohort {

/// Names the exchanges of rings, so that all members know alike which one to use again: those of
/// the lists of members that were used last are kept, so that switching back costs nothing. Pure.
class RingIds {
public:
    /// Lists of members whose exchanges are kept; each costs a gradient's memory on its members.
    static constexpr std::size_t kKept = 4;

    struct Names {
        std::uint64_t ring = 0;   ///< of the exchange over all members
        std::uint64_t group = 0;  ///< of that over the first group, +1 for the next ...; 0: none
    };
    /// The names for these members (in ring order) in groups of `group` (1: no groups).
    [[nodiscard]] Names find(const std::vector<int>& members, int group);
    /// All that may be used again.
    [[nodiscard]] std::vector<std::uint64_t> kept() const;
    /// Rings with this worker are not used again: they break with it.
    void forget(int worker);

private:
    struct Known {
        std::vector<int> members;
        int group = 1;
        Names names;
        std::uint64_t last = 0;  ///< name of its last group or of the ring
    };
    std::deque<Known> known_;  ///< used last: at the front
    std::uint64_t newest_ = 0;
};

}  // namespace cohort
