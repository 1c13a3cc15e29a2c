#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/communicators.hpp"
#include "comm/base/doorbell.hpp"
#include "comm/transfer/control.hpp"
#include "comm/transfer/pacer.hpp"
#include "comm/transfer/transfers.hpp"
#include "comm/world/members.hpp"
#include "comm/world/peer_watch.hpp"
#include "comm/world/startup.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

/// Who the ranks are, and this rank's ways to the others. Only the communication thread uses it,
/// but for the parts that say otherwise.
struct Network {
    explicit Network(bool with_mpi) : uses_mpi(with_mpi) {}
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    ~Network() = default;

    /// Collective. Errors: those of World::World.
    void open(const WorldOptions& options, const LaunchEnv& env, Ports& ports);
    /// Collective: ends the communicators, and MPI unless it is a pool's.
    void close();

    /// Fixed after open(); from any thread.
    [[nodiscard]] int rank() const noexcept { return roster.own_rank; }
    [[nodiscard]] const RankMap& map() const noexcept { return roster.map; }
    /// Whether messages of this rank's application to `other` leave. From any thread.
    [[nodiscard]] bool reaches(int other) const noexcept {
        return !members.excluded(other) && !members.excluded(rank());
    }
    /// Whether this rank may tell how the job has ended: rank 0, or a rank of its host when rank 0
    /// is dead or frozen.
    [[nodiscard]] bool speaks(Instant now) const;
    /// Messages or chunks are in flight.
    [[nodiscard]] bool moving() const noexcept {
        return transfers->moving() || (control && !control->quiet());
    }
    /// All that was to be sent has left.
    [[nodiscard]] bool all_left() const noexcept {
        return transfers->sent_all() && (!control || control->quiet());
    }
    /// Nobody waits any more for messages and chunks to and from `other`.
    void abandon(int other) const;

    /// What a World that follows another one has of it.
    struct Inherited {
        MPI_Comm parent = MPI_COMM_NULL;  ///< of all ranks of the one before
        std::vector<int> ranks;           ///< of the parent, those of this World
        int first_rank = 0;               ///< of this process
        /// A rank of the parent, one of `ranks`, that has died since; nothing: none has.
        std::function<std::optional<int>()> lost;
    };
    std::optional<Inherited> inherited;  ///< set before open()

    const bool uses_mpi;  ///< false: a world of one rank, without communicators
    std::atomic<bool> mpi_started{false};
    bool own_mpi = true;                           ///< started here, not by a pool
    bool ends_mpi = true;                          ///< false: others in this process do
    std::function<void(const std::string&)> ends;  ///< of a pool's part, see PoolPart
    Traffic traffic;                               ///< thread safe
    Doorbells bells;                               ///< ring() is thread safe
    Communicators comms;
    StartupRoster roster;
    Members members;                          ///< thread safe
    Pacer pacer;                              ///< set_rate() and limits() are thread safe
    std::unique_ptr<ControlChannel> control;  ///< null without MPI
    std::unique_ptr<PeerWatch> watch;         ///< null without MPI
    std::unique_ptr<Transfers> transfers;
};

}  // namespace cohort
