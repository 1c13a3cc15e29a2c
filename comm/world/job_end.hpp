#pragma once

#include <mpi.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"
#include "cohort/core/error.hpp"
#include "comm/transfer/control.hpp"

namespace cohort {

/// Why a job ends, and which rank says so.
struct Failure {
    ExitCode code = ExitCode::kPeer;
    std::string reason;
    int origin = 0;
};

/// How a job ends when something failed.
class JobEnd {
public:
    explicit JobEnd(OperationBoard& board) : board_(board) {}

    /// See World::on_failure. Thread safe, as is request().
    using Record = std::function<void(ExitCode, const std::string&, bool speaks)>;
    void on_failure(Record record);
    /// Asks the communication thread to end the job. The first one counts.
    void request(Failure failure);
    [[nodiscard]] std::optional<Failure> requested() const;

    /// What a rank has to reach the others with.
    struct Reach {
        const RankMap& map;
        int own_rank = 0;
        ControlChannel* control = nullptr;  ///< null without MPI
        std::vector<int> expected;          ///< other ranks that are alive
        bool speaks = false;  ///< this is rank 0, or stands in for it (CommLoop::speaks())
        bool spared = false;  ///< the job goes on without this rank: no record of its end is left
    };
    /// Ends this process, and with it the job. On the communication thread.
    ///  1. log and record here
    ///  2. the rank where it began tells the others, which log, record and answer; it waits for
    ///     their answers, at most kGrace
    ///  3. MPI_Abort by the ranks that speak for the job. All others just leave: a rank that cannot
    ///     reach rank 0 may be cut off, and the job goes on without it
    [[noreturn]] void end(const Failure& failure, const Reach& reach) noexcept;

private:
    void leave_record(const Failure& failure, const Reach& reach);
    static void tell(const Failure& failure, const Reach& reach);

    OperationBoard& board_;
    mutable std::mutex mutex_;
    Record record_;
    std::optional<Failure> requested_;
};

}  // namespace cohort
