// With all ranks alive: 1. all ranks agree that the job is over; 2. everything leaves; 3. MPI is
// shut down. After a loss MPI cannot be shut down, it would wait for the lost rank:
//  1. the members agree that the job is over; from then on no leaving rank counts as lost
//  2. they agree a second time, for some seconds at most: then all of them know, and no rank needs
//     another one any more
//  3. rank 0 tells excluded ranks that it hears, and ends those that may still live
//  4. each process ends without MPI_Finalize
#include "comm/world/orderly_end.hpp"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/bytes.hpp"

namespace cohort {
namespace {

/// For the second agreement.
constexpr std::chrono::seconds kFarewell{5};

/// Called by exit().
void end_process(int status, void* abort) {
    std::fflush(nullptr);
    if (abort != nullptr) {
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    ::_exit(status);
}

/// Excluded ranks that may still live; on rank 0.
std::vector<int> excluded_alive(const Network& network) {
    std::vector<int> ranks;
    for (int other = 1; network.rank() == 0 && other < network.map().size(); ++other) {
        if (network.members.excluded(other) && network.watch->alive(other)) {
            ranks.push_back(other);
        }
    }
    return ranks;
}

/// Tells excluded ranks whose heartbeats arrive again that the job has ended without them.
void tell_excluded(Network& network) {
    const auto body = encode(Verdict{ExitCode::kPeer, "the job has ended without this rank"});
    for (const int other : excluded_alive(network)) {
        if (!network.watch->silent(other, std::chrono::steady_clock::now())) {
            network.control->send(other, {.type = PacketType::kAbort}, body);
        }
    }
}

void leave_without_mpi(WorldParts& parts, CommThread& thread) {
    static_cast<void>(parts.agreement.agree_within(kFarewell));
    parts.commands.post([&parts] {
        tell_excluded(parts.network);
        parts.progress.stop(true);
    });
    thread.join();
    bool unreachable = false;
    for (const int other : excluded_alive(parts.network)) {
        // A rank on another host cannot be ended from here: mpirun would wait for it.
        unreachable = !parts.network.watch->end_process(other) || unreachable;
    }
    static int abort_mark = 0;
    static_cast<void>(::on_exit(end_process, unreachable ? &abort_mark : nullptr));
}

}  // namespace

void end_orderly(WorldParts& parts, CommThread& thread) {
    parts.commands.post([&parts] { parts.membership.end_watch(); });
    const Verdict all = parts.agreement.agree_on_end();
    check_invariant(all.code == ExitCode::kDone, "all ranks finalize at the same point");
    if (all.epoch > 0) {
        leave_without_mpi(parts, thread);
        return;
    }
    parts.commands.post([&parts] { parts.progress.stop(false); });
    thread.join();
}

}  // namespace cohort
