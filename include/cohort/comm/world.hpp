#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/membership.hpp"
#include "cohort/comm/messenger.hpp"
#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"
#include "cohort/comm/rank_pool.hpp"
#include "cohort/core/error.hpp"

namespace cohort {

class World;

struct WorldOptions {
    int servers = 0;                     ///< ranks 0..servers-1 are servers
    double stall_limit_s = 60;           ///< a named wait warns after this, twice is fatal
    double lost_after_s = 15;            ///< a rank silent for this long is lost
    std::int64_t chunk_bytes = 1 << 20;  ///< of transfers
    bool alone = false;                  ///< a world of this process only, without MPI
    /// Of workers and of servers, see device_of_rank: what RankInfo::device says. GPUs are counted
    /// by ranks whose role may use them, which makes no context on any.
    std::string device = "cpu";
    std::string server_device = "cpu";
    std::optional<PoolPart> part = {};  ///< the ranks of the job; none: all that were started
    /// The World of whose ranks, after a loss, those that are left form this one: it has retired.
    /// It outlives this one, since MPI may still write into its buffers.
    World* predecessor = nullptr;
};

/// The ranks of this job: who they are, messages between them, and how the job ends. One
/// communication thread per rank owns MPI; it sleeps when nothing moves. A world of one rank
/// that no launcher started, or with `alone`, uses no MPI at all. A failure that ends the job
/// (abort) ends the processes of all its ranks; those of a pool that are not of its part go on,
/// where mpirun lets them (--enable-recovery).
class World {
public:
    /// Collective over the ranks of the job. Errors: UsageError when there are fewer than servers +
    /// 1 ranks; PeerError when MPI cannot be started.
    explicit World(const WorldOptions& options);
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    /// Without finalize() before (an error is being thrown): ends the whole job.
    ~World();

    [[nodiscard]] int rank() const noexcept;
    [[nodiscard]] int size() const noexcept { return map().size(); }
    [[nodiscard]] const RankMap& map() const noexcept;
    [[nodiscard]] Role role() const noexcept;
    [[nodiscard]] Messenger& messenger() noexcept;
    [[nodiscard]] Membership& membership() noexcept;
    [[nodiscard]] OperationBoard& operations() noexcept;

    /// Sends a short message to a rank of the pool that this World is a part of; from any thread,
    /// before finalize().
    void tell_pool(int pool_rank, std::vector<std::byte> body);

    /// Collective: "did all of us get here?" A rank that failed passes its code and message, the
    /// others kDone and "". Returns the worst code; on rank 0 `message` becomes what to print:
    /// each different message once with the ranks that said so. Nobody may go on unless it is
    /// kDone.
    [[nodiscard]] ExitCode agree(ExitCode code, std::string& message);

    /// Called once, on the communication thread, before the process ends because of a failure
    /// here or elsewhere: to leave a record. Must not throw or block. @param record  gets exit
    /// code, reason, and whether this rank speaks for the job: rank 0, or, when it has died or is
    /// frozen, a rank of its host. To any other rank that hears nothing of rank 0 its death and a
    /// link that is down look the same, and a job goes on without the ranks behind such a link.
    void on_failure(std::function<void(ExitCode, const std::string&, bool speaks)> record);

    /// Ends the job from any thread: all ranks log `reason` (with rank, host, pid of this one) and
    /// this rank's last operations, and exit with `code`.
    [[noreturn]] void abort(ExitCode code, const std::string& reason);
    /// The same with the code and the words that suit an exception: those of an Error; 5 when
    /// memory is short; 1 and "internal error" for any other.
    [[noreturn]] void abort(const std::exception_ptr& failure);

    /// From now on this rank survives the death of rank 0 or of a server, once it is `ready`: the
    /// waits of its roles break (WorldLost), and when the roles have gone, retire() and a World
    /// with this predecessor follow. Without that such a death ends the job. Every rank calls this
    /// for itself; it is over when all ranks have agreed in finalize() that the job has ended. For
    /// ranks that a launcher started, not those of a pool.
    /// @param ready  whether the rank has something to go on with; called on the communication
    /// thread, until the next call of survive(). Empty: never
    void survive(std::function<bool()> ready);
    /// This rank has survived such a death: WorldLost was thrown, or is about to be.
    [[nodiscard]] bool lost() const noexcept;
    /// The ranks that form the next World.
    struct Survivors {
        std::vector<int> ranks;  ///< of this World, ascending; their places are their next ranks
        std::string reason;      ///< the loss, a sentence
    };
    /// After WorldLost: sleeps until the ranks that are left have agreed, then ends the
    /// communication thread. Ends the process when the others go on without this rank.
    [[nodiscard]] Survivors retire();

    /// Collective: waits for all members, then shuts MPI down, unless it is a pool's. Nothing may
    /// be sent after it. When a rank was ever excluded MPI is not shut down: the process ends
    /// without it when it exits (static objects are not destroyed), and excluded ranks that still
    /// live are ended. Errors: WorldLost.
    void finalize();
    /// After finalize(): MPI was not shut down and may still write into this object's buffers, so
    /// it must live until the process ends.
    [[nodiscard]] bool left_mpi() const noexcept;

    struct Impl;
    /// For the collectives of this module.
    [[nodiscard]] Impl& impl() noexcept { return *impl_; }

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
