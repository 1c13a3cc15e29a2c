#pragma once

#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// The processes of other ranks of this host. Thread safe.
class NodeProcesses {
public:
    /// @param ranks  whose process numbers mean the same on this rank
    NodeProcesses(const RankMap& map, const std::vector<int>& ranks);

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
    std::vector<FileDescriptor> descriptors_;  ///< pidfds; invalid where the kernel has none
};

}  // namespace cohort
