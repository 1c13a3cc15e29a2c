#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// The exchanges of a worker's groups (hierarchical SGD). One per generation and member list, so
/// that all members agree on which one a lease is for; the last few are kept.
class GroupExchanges {
public:
    /// A turn in a group's exchange.
    struct Turn {
        AllReduce* exchange = nullptr;  ///< null: the group broke, or there is none
        std::uint64_t round = 0;        ///< first of the rounds
    };

    /// @param floats of the exchanged buffers  @param scope of the exchanges
    GroupExchanges(AllReduceFactory make, std::int64_t floats, AllReduceScope scope = {});

    /// The exchange for a lease with a group; collective over the group. Reserves work.steps
    /// rounds of it.
    [[nodiscard]] Turn turn(const WorkOrder& work);
    /// The exchange for `work` broke: it is not used any more.
    void broke(const WorkOrder& work);

private:
    struct Entry {
        std::uint64_t generation = 0;
        std::vector<std::int32_t> ranks;
        std::unique_ptr<AllReduce> exchange;
        std::uint64_t round = 0;  ///< the next
    };
    [[nodiscard]] std::list<Entry>::iterator find(const WorkOrder& work);

    AllReduceFactory make_;
    std::int64_t floats_;
    AllReduceScope scope_;
    std::list<Entry> entries_;  ///< used last first
};

}  // namespace cohort
