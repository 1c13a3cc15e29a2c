#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/allreduce/back_ends.hpp"

namespace cohort {

/// Which members wait for the end of a round, for operations where the library names no missing
/// member: a member that has waited for a while says so to the others. Cost: one small message to
/// each. On the communication thread, but for missing().
class Presence {
public:
    /// @param collective  number of the all-reduce
    Presence(const AllReduceSetting& setting, int collective);

    /// This member waits in a round; once per round, and only when all_sent().
    void tell(std::uint64_t ordinal);
    /// What this member has said has left.
    [[nodiscard]] bool all_sent();
    /// Receives what the others have said. At the end of every round, or messages would pile up at
    /// a member that never waits.
    void listen();
    /// World ranks that have not said that they wait; all others before this member has said so.
    [[nodiscard]] std::vector<int> missing(std::uint64_t ordinal) const;

private:
    struct Note {
        std::int64_t collective = 0;
        std::uint64_t ordinal = 0;
        std::int64_t member = 0;
    };
    const AllReduceSetting& setting_;
    int collective_;
    std::vector<std::atomic<std::uint64_t>> waited_;  ///< by member: last ordinal
    Note note_;
    std::vector<MPI_Request> sends_;
};

/// Makes a communicator of the members, or gives up when a member is lost meanwhile.
class MemberGroup {
public:
    /// @param collective  number of the all-reduce
    MemberGroup(const AllReduceSetting& setting, int collective);

    /// Collective over the members. Blocks the caller, but not this rank's communication thread, if
    /// MPI allows that. Errors: RingBroken.
    [[nodiscard]] MPI_Comm make();
    /// A member was lost: make() would never end. From any thread.
    void give_up() noexcept;

private:
    struct Making;
    const AllReduceSetting& setting_;
    std::shared_ptr<Making> making_;  ///< outlives this object when make() gives up
};

}  // namespace cohort
