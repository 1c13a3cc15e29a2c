#pragma once

#include <mpi.h>

#include <memory>

#include "comm/allreduce/back_ends.hpp"

namespace cohort {

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
