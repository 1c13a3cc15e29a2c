#include "comm/world/comm_thread.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <exception>
#include <optional>
#include <utility>

#include "comm/base/dead_tcp_mask.hpp"
#include "comm/base/running_time.hpp"
#include "comm/world/rank_pool.hpp"
#include "core/bytes.hpp"
#include "core/failure_text.hpp"
#include "core/log.hpp"
#include "core/system/process_usage.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLook{50};
/// How long MPI may hold the thread after a death that the job survives.
constexpr auto kStuckWithTheDead = 2s;

/// For when MPI holds the communication thread and no other rank can be reached.
[[noreturn]] void leave_at_once(const std::string& why) {
    log_error("{}", why);
    ::_exit(static_cast<int>(ExitCode::kPeer));
}

}  // namespace

CommThread::~CommThread() {
    if (thread_.joinable()) {
        static_cast<void>(parts_.commands.try_post([this] { parts_.progress.stop(false); }));
        thread_.join();
    }
}

// MPI cannot be told to wait for a while only: a rank that ends before its MPI has started keeps
// the others in MPI_Init.
void CommThread::start() {
    std::promise<void> ready;
    std::future<void> started = ready.get_future();
    thread_ = std::thread([this, &ready] { run(ready); });
    const double stall_limit = parts_.options.stall_limit_s > 0 ? parts_.options.stall_limit_s : 60;
    const std::chrono::duration<double> limit(2 * stall_limit);
    RunningTime time;
    while (parts_.network.uses_mpi && started.wait_for(kLook) != std::future_status::ready) {
        const auto& before = parts_.network.inherited;
        if (const std::optional<int> dead = before ? before->lost() : std::nullopt) {
            leave_at_once(
                fmt::format("rank {} has died while the ranks that were left formed the "
                            "next world: they cannot go on",
                            *dead));
        }
        // Once MPI has started, the ranks' meeting has limits of its own.
        const bool begun = parts_.network.mpi_started.load();
        if (time.look() > (begun ? 3 * limit : limit)) {
            leave_at_once(fmt::format("rank {}: {}: not all ranks came within {:.0f} s",
                                      parts_.env.world_rank, begun ? "start" : "MPI start",
                                      time.look().count()));
        }
    }
    started.get();
}

void CommThread::join() {
    const auto leaving = parts_.board.begin("shutting down", 0);
    // Past the end of the loop no thread checks the named waits: MPI_Finalize has its own limit.
    const std::chrono::duration<double> limit(3 * parts_.options.stall_limit_s);
    auto ended = std::async(std::launch::async, [this] { thread_.join(); });
    RunningTime time;
    while (ended.wait_for(kLook) != std::future_status::ready) {
        if (time.look() > limit) {
            leave_at_once(fmt::format("rank {}: MPI does not end within {:.0f} s",
                                      parts_.network.rank(), limit.count()));
        }
    }
}

bool CommThread::open(std::promise<void>& ready) {
    Network& network = parts_.network;
    try {
        network.open(parts_.options, parts_.env, parts_.ports);
        return true;
    } catch (const UsageError&) {  // on all ranks alike
        close();
        clock_.stop();
        ready.set_exception(std::current_exception());
    } catch (const std::exception& error) {
        if (network.comms.world != MPI_COMM_NULL) {
            log_error("rank {}: {}", network.rank(), error.what());
            if (network.ends) {
                network.ends(error.what());
                ::_exit(static_cast<int>(ExitCode::kPeer));
            }
            MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::kPeer));
        }
        clock_.stop();
        ready.set_exception(std::current_exception());
    }
    return false;
}

void CommThread::run(std::promise<void>& ready) {
    ::prctl(PR_SET_NAME, "cohort-comm");
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // sleeps of 50 us are to be that long
    ask_for_short_slices();
    clock_.start();
    std::optional<DeadTcpMask> mask;
    if (parts_.options.part || parts_.network.inherited) {
        mask.emplace();  // ranks may have died before
    }
    if (!open(ready)) {
        return;
    }
    parts_.commands.open();
    ready.set_value();
    try {
        start_watchdog();
        mask.emplace();
        parts_.progress.run(
            {.deliver = [this](Packet&& packet) { deliver(std::move(packet)); },
             .after_commands =
                 [this] {
                     if (const auto failure = parts_.job_end.requested()) {
                         parts_.job_end.end(*failure);
                     }
                 },
             .look_after = [this](Instant now,
                                  Instant::duration since) { look_after(now, since); }});
        watchdog_.reset();
    } catch (const Error& error) {
        parts_.job_end.end({error.exit_code(), error.what(), parts_.network.rank()});
    } catch (const std::exception& error) {
        parts_.job_end.end({ExitCode::kPeer, failure_text(error), parts_.network.rank()});
    }
    parts_.commands.end();
    close();
    clock_.stop();
}

/// After a loss MPI is left as it is: it would wait for the lost rank.
void CommThread::close() noexcept {
    if (!parts_.network.uses_mpi || parts_.progress.stopped_at_once()) {
        return;
    }
    try {
        parts_.network.close();
    } catch (const std::exception& error) {
        log_error("rank {}: while shutting down: {}", parts_.network.rank(), error.what());
        ::_exit(static_cast<int>(ExitCode::kPeer));
    }
}

void CommThread::look_after(Instant now, Instant::duration since) {
    Network& network = parts_.network;
    const bool paused = since > kOwnPause;
    // Nor is a wait counted while the others do not count on this rank.
    if (paused || network.members.excluded(network.rank()) || parts_.cut_off.doubts() ||
        parts_.succession.active()) {
        parts_.board.forgive(since);
    }
    if (paused) {
        parts_.cut_off.forgive(since);
    }
    const auto excluded = [&](int rank) { return network.members.excluded(rank); };
    for (const Stall& stall : parts_.board.check(excluded)) {
        const std::string text =
            fmt::format("waiting for {} (#{}) for {:.1f} s: missing {}", stall.name, stall.sequence,
                        stall.seconds, network.map().describe(stall.missing));
        if (stall.fatal && !network.speaks(now) && network.watch->uncertain(0, now)) {
            parts_.cut_off.begin(now, text);
        } else if (stall.fatal) {
            parts_.job_end.end({ExitCode::kPeer, text, network.rank()});
        } else {
            log_warn("rank {}: {}", network.rank(), text);
        }
    }
    parts_.membership.look_after(now);
    hear_pool();
}

/// Messages from ranks that have no part in this World.
void CommThread::hear_pool() {
    const std::optional<PoolPart>& part = parts_.options.part;
    while (part && part->received) {
        const auto message = part->pool->impl().probe();
        if (!message) {
            return;
        }
        part->received(*message);
    }
}

void CommThread::deliver(Packet&& packet) {
    Network& network = parts_.network;
    const PacketHeader header = packet.header;
    const bool from_excluded = network.members.excluded(packet.source);
    if (network.rank() == 0 && from_excluded && !parts_.succession.active()) {
        network.watch->ask(packet.source);
    }
    const bool for_a_role =
        header.type == PacketType::kMessage || header.type == PacketType::kTransfer;
    if (for_a_role && parts_.succession.active()) {
        return;  // its memory may be gone
    }
    switch (header.type) {
        case PacketType::kMessage:
            parts_.ports.mailbox(header.to).put(
                {.from = {.rank = packet.source, .port = header.from},
                 .kind = header.kind,
                 .body = std::move(packet.body)});
            return;
        case PacketType::kTransfer: network.transfers->announced(std::move(packet)); return;
        case PacketType::kArrived:
            parts_.agreement.arrived(header.sequence, packet.source, decode<Verdict>(packet.body));
            return;
        case PacketType::kAgreed:
            parts_.agreement.agreed(header.sequence, decode<Verdict>(packet.body));
            return;
        default: deliver_news(packet, from_excluded);
    }
}

/// Of the members, and of the end of the job.
void CommThread::deliver_news(const Packet& packet, bool from_excluded) {
    switch (packet.header.type) {
        case PacketType::kMembership:
            if (parts_.succession.active()) {
                return;  // this rank counts all others as excluded
            }
            parts_.membership.apply(decode<MembershipState>(packet.body));
            return;
        case PacketType::kSuspect: {
            const auto suspect = decode<Suspect>(packet.body);
            parts_.membership.suspect({suspect.rank, suspect.dead, suspect.reason});
            return;
        }
        case PacketType::kAbort:
            if (!from_excluded || parts_.succession.active()) {  // an excluded rank leaves alone
                const auto verdict = decode<Verdict>(packet.body);
                parts_.job_end.end({verdict.code, verdict.message, packet.source});
            }
            return;
        case PacketType::kProbe:
            parts_.network.control->send(packet.source, {.type = PacketType::kProbeSeen,
                                                         .sequence = packet.header.sequence});
            return;
        case PacketType::kProbeSeen:
            parts_.membership.answered(packet.source, packet.header.sequence);
            return;
        case PacketType::kSuccession:
            parts_.succession.heard(packet.source, decode<SuccessionNote>(packet.body));
            return;
        default: return;  // a sign of life
    }
}

void CommThread::start_watchdog() {
    if (!parts_.network.uses_mpi) {
        return;
    }
    const int rank = parts_.network.rank();
    const auto cause = [this, rank](std::chrono::duration<double> stuck) -> std::optional<Failure> {
        const auto loss = parts_.network.watch->find_dead();
        const bool ends = loss && parts_.membership.ends_the_job(loss->rank);
        if (loss && ((ends && !parts_.succession.allowed()) || stuck > kStuckWithTheDead)) {
            return Failure{ExitCode::kPeer, loss->reason, rank};
        }
        return parts_.job_end.requested();
    };
    // The communication thread is inside MPI, so this rank just leaves: the others, or mpirun,
    // notice. They go on without a worker.
    const auto leave = [this, rank](const Failure& failure) {
        const bool survived = parts_.succession.allowed() || !parts_.membership.ends_the_job(rank);
        parts_.job_end.leave(failure, survived && !parts_.job_end.requested());
    };
    watchdog_ = std::make_unique<Watchdog>(
        parts_.progress.steps(), cause, std::chrono::duration<double>(parts_.options.lost_after_s),
        leave);
}

}  // namespace cohort
