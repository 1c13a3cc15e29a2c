// Agreements, and how a job ends well.
//
// With all ranks alive: 1. all agree that the job is over; 2. everything leaves; 3. MPI is shut
// down. After a loss MPI cannot be shut down, it would wait for the dead:
//  1. the members agree that the job is over; from then on nobody minds who leaves
//  2. they agree a second time, for some seconds at most: all know, so nobody needs anybody else
//  3. rank 0 tells excluded ranks that it hears, and ends those that may still live
//  4. each process ends without MPI_Finalize
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>

#include "comm/base/running_time.hpp"
#include "comm/world/comm_loop.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

/// For the second agreement.
constexpr auto kFarewell = 5s;
constexpr std::chrono::milliseconds kEndPoll{50};

/// Called by exit().
void end_process(int status, void* abort) {
    std::fflush(nullptr);
    if (abort != nullptr) {
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    ::_exit(status);
}

}  // namespace

std::uint32_t CommLoop::arrive(Verdict own, bool last) {
    const std::uint32_t sequence = agreement_->next();
    post([this, sequence, last, own = std::move(own)] {
        if (last) {
            last_agreement_ = sequence;
            const std::lock_guard lock(watcher_mutex_);
            excludes_by_itself_ = excludes_by_itself_ || watcher_;  // its part of the job is over
        }
        if (rank() == 0) {
            arrived(sequence, 0, own);
        } else {
            control_->send(0, {.type = PacketType::kArrived, .sequence = sequence}, encode(own));
        }
    });
    return sequence;
}

Verdict CommLoop::agree(Verdict own, std::string_view name) {
    return agreement_->wait(arrive(std::move(own), false), name, board_, rank());
}

void CommLoop::arrived(std::uint32_t sequence, int from, Verdict verdict) {
    if (const auto past = agreement_->arrived(sequence, from, std::move(verdict))) {
        control_->send(from, {.type = PacketType::kAgreed, .sequence = sequence}, encode(*past));
    }
    conclude_agreements();
}

void CommLoop::conclude_agreements() {
    for (const std::uint32_t sequence : agreement_->complete()) {
        Agreement::Conclusion done = agreement_->conclude(sequence);
        const auto body = encode(done.verdict);
        for (const int other : done.arrived) {
            if (other != 0 && watch_->alive(other)) {
                control_->send(other, {.type = PacketType::kAgreed, .sequence = sequence}, body);
            }
        }
        agreed(sequence, std::move(done.verdict));
    }
}

void CommLoop::agreed(std::uint32_t sequence, Verdict verdict) {
    over_ = over_ || (sequence == last_agreement_ && verdict.epoch > 0);
    agreement_->agreed(sequence, std::move(verdict));
}

void CommLoop::finish() {
    const Verdict all = agreement_->wait(arrive({}, true), "end of the job", board_, rank());
    check_invariant(all.code == ExitCode::kDone, "all ranks finalize at the same point");
    if (all.epoch == 0) {
        shut_down();
    } else {
        leave_without_mpi();
    }
}

void CommLoop::shut_down() {
    post([this] { stopping_ = true; });
    join_thread();
}

/// Tells excluded ranks whose heartbeats arrive again that the job has ended without them.
void CommLoop::tell_excluded() {
    const auto body = encode(Verdict{ExitCode::kPeer, "the job has ended without this rank"});
    for (int other = 1; rank() == 0 && other < map().size(); ++other) {
        if (members_.excluded(other) && watch_->alive(other) &&
            !watch_->silent(other, std::chrono::steady_clock::now())) {
            control_->send(other, {.type = PacketType::kAbort}, body);
        }
    }
}

void CommLoop::leave_without_mpi() {
    static_cast<void>(agreement_->wait_for(arrive({}, false), kFarewell));
    post([this] {
        tell_excluded();
        stopping_ = leaving_ = true;
    });
    join_thread();
    bool unreachable = false;
    for (int other = 1; rank() == 0 && other < map().size(); ++other) {
        if (members_.excluded(other) && watch_->alive(other) && !watch_->end_process(other)) {
            unreachable = true;  // on another host: mpirun would wait for it
        }
    }
    static int abort_mark = 0;
    static_cast<void>(::on_exit(end_process, unreachable ? &abort_mark : nullptr));
}

void CommLoop::join_thread() {
    const auto leaving = board_.begin("shutting down", 0);
    // Past the end of the loop nobody looks at the named waits: MPI_Finalize has its own limit.
    const std::chrono::duration<double> limit(3 * options_.stall_limit_s);
    auto ended = std::async(std::launch::async, [this] { thread_.join(); });
    RunningTime time;
    while (ended.wait_for(kEndPoll) != std::future_status::ready) {
        if (time.look() > limit) {
            log_error("rank {}: MPI does not end within {:.0f} s", rank(), limit.count());
            ::_exit(static_cast<int>(ExitCode::kPeer));
        }
    }
}

}  // namespace cohort
