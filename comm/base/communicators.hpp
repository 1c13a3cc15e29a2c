#pragma once

#include <mpi.h>

#include <cstdint>
#include <source_location>
#include <vector>

namespace cohort {

/// Throws PeerError with class and text of an MPI code that is not MPI_SUCCESS, and the place of
/// the call. Every MPI call of the program goes through it.
void check_mpi(int code, std::source_location where = std::source_location::current());

/// A size or count for MPI's `int`. Errors: UsageError when it does not fit.
[[nodiscard]] int mpi_count(std::uint64_t count,
                            std::source_location where = std::source_location::current());

/// Whether a request has completed; a null request has.
[[nodiscard]] bool ended(MPI_Request& request);

/// The communicators of a rank. All of them return errors. To be used on the communication
/// thread only.
struct Communicators {
    MPI_Comm world = MPI_COMM_NULL;     ///< all ranks: control messages
    MPI_Comm transfer = MPI_COMM_NULL;  ///< all ranks: chunks of transfers
    MPI_Comm ring = MPI_COMM_NULL;      ///< all ranks: point-to-point of all-reduces
    MPI_Comm node = MPI_COMM_NULL;      ///< ranks that share memory, in the order of world ranks

    /// Collective, blocking. MPI must be initialised. Only `world` is made.
    void open_world();
    /// Collective, blocking: transfer, ring and node.
    void open_shared();
    /// Collective, blocking.
    void close();
};

/// A communicator of `members` (world ranks, in this order), made from `parent`, which must hold
/// all ranks of the world. Collective over the members only, blocking. `tag` tells concurrent
/// calls apart.
[[nodiscard]] MPI_Comm create_group(MPI_Comm parent, const std::vector<int>& members, int tag);

}  // namespace cohort
