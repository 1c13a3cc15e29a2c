#pragma once

#include <vector>

#include "cohort/comm/rank_map.hpp"

namespace cohort {

/// The processes of other ranks of this host. Thread safe.
class NodeProcesses {
public:
    /// @param ranks  whose process numbers mean the same on this rank
    NodeProcesses(const RankMap& map, const std::vector<int>& ranks);
    NodeProcesses(const NodeProcesses&) = delete;
    NodeProcesses& operator=(const NodeProcesses&) = delete;
    ~NodeProcesses();

    [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }
    [[nodiscard]] bool knows(int rank) const noexcept { return index_of(rank) < ranks_.size(); }
    /// The process is known to have ended.
    [[nodiscard]] bool ended(int rank) const;
    /// Ends the process. False when it cannot be reached from this rank.
    [[nodiscard]] bool kill(int rank) const;

private:
    [[nodiscard]] std::size_t index_of(int rank) const noexcept;

    const RankMap& map_;
    std::vector<int> ranks_;
    std::vector<int> descriptors_;  ///< pidfds; -1 where the kernel has none
};

}  // namespace cohort
