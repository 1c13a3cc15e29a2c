#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "comm/world/command_queue.hpp"
#include "comm/world/cut_off.hpp"

namespace cohort {

/// How a job ends when something failed. A failed process
///  1. logs and leaves a record
///  2. tells the others, when the failure began here; they log, record and answer; it waits for
///     their answers, at most kGrace
///  3. calls MPI_Abort when it speaks for the job, or tells the pool that the ranks are part of.
///  All other ranks just leave: a rank that cannot
///     reach rank 0 may be cut off, and the job goes on without it
class JobEnd {
public:
    JobEnd(Network& network, CommandQueue& commands, OperationBoard& board, const CutOff& cut_off)
        : network_(network), commands_(commands), board_(board), cut_off_(cut_off) {}

    /// See World::on_failure. Thread safe.
    using Record = std::function<void(ExitCode, const std::string&, bool speaks)>;
    void on_failure(Record record);
    /// Ends the job from any thread. The first failure counts.
    [[noreturn]] void abort(ExitCode code, const std::string& reason);
    /// What abort() was called with. Thread safe.
    [[nodiscard]] std::optional<Failure> requested() const;

    /// Ends this process, and with it the job; an excluded rank, or one that is cut off, leaves
    /// alone. On the communication thread.
    [[noreturn]] void end(const Failure& failure) noexcept;
    /// Ends this process while MPI holds the communication thread, without a word to the others:
    /// they, or mpirun, notice. Returns when the process is being ended already. On any other
    /// thread. @param spared  the job goes on without this rank
    void leave(Failure failure, bool spared) noexcept;

private:
    /// How this process takes part in the end.
    struct Role {
        bool tells = false;   ///< it exchanges messages with the others
        bool speaks = false;  ///< for the job, see Network::speaks()
        bool spared = false;  ///< the job goes on without this rank: no record of its end is left
    };
    [[noreturn]] void end(const Failure& failure, const Role& role) noexcept;
    void leave_record(const Failure& failure, const Role& role);
    void tell(const Failure& failure, bool speaks);
    [[nodiscard]] std::vector<int> others_alive() const;

    Network& network_;
    CommandQueue& commands_;
    OperationBoard& board_;
    const CutOff& cut_off_;
    std::atomic<bool> ending_{false};
    mutable std::mutex mutex_;
    Record record_;
    std::optional<Failure> requested_;
};

}  // namespace cohort
