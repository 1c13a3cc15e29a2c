#include "comm/world/comm_loop.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "comm/base/running_time.hpp"
#include "comm/base/silent_links.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

/// After something moved the thread only yields for this long, then it sleeps.
constexpr auto kYieldFor = 50us;
constexpr std::chrono::microseconds kShortestSleep = 50us;
constexpr std::chrono::microseconds kLongestSleep = 2ms;
/// Where all ranks share a node and nothing is under way, whatever comes rings the bell.
constexpr std::chrono::microseconds kLongestSleepBell = 20ms;
/// While chunks move between hosts, which cannot ring.
constexpr std::chrono::microseconds kLongestSleepMoving = 250us;
constexpr auto kMovingFor = 20ms;
constexpr auto kLookEvery = 100ms;
/// How long MPI may hold the thread after a worker's death.
constexpr auto kStuckWithTheDead = 2s;

}  // namespace

CommLoop::CommLoop(const WorldOptions& options, OperationBoard& board, Ports& ports)
    : options_(options),
      board_(board),
      ports_(ports),
      env_(read_launch_env()),
      uses_mpi_(!options.alone && env_.launcher != "none"),
      end_(board) {
}

CommLoop::~CommLoop() {
    if (thread_.joinable()) {
        static_cast<void>(try_post([this] { stopping_ = true; }));
        thread_.join();
    }
}

void CommLoop::thread_main(std::promise<void>& ready) {
    ::prctl(PR_SET_NAME, "cohort-comm");
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // sleeps of 50 us are to be that long
    thread_id_.store(std::this_thread::get_id());
    {
        const std::lock_guard lock(clock_mutex_);
        clock_runs_ = ::pthread_getcpuclockid(::pthread_self(), &cpu_clock_) == 0;
    }
    try {
        open();
    } catch (const UsageError&) {  // on all ranks alike
        close();
        stop_cpu_clock();
        ready.set_exception(std::current_exception());
        return;
    } catch (const std::exception& error) {
        if (comms_.world != MPI_COMM_NULL) {
            log_error("rank {}: {}", rank(), error.what());
            MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::kPeer));
        }
        stop_cpu_clock();
        ready.set_exception(std::current_exception());
        return;
    }
    {
        const std::lock_guard lock(command_mutex_);
        takes_commands_ = true;
    }
    running_.store(true);
    ready.set_value();
    try {
        start_watchdog();
        const SilentLinks silent;
        loop();
        watchdog_.reset();
    } catch (const Error& error) {
        end_here({error.exit_code(), error.what(), rank()});
    } catch (const std::exception& error) {
        end_here({ExitCode::kPeer, error.what(), rank()});
    }
    running_.store(false);
    close();
    stop_cpu_clock();
}

void CommLoop::open() {
    if (uses_mpi_) {
        start_mpi();
        mpi_started_.store(true);
        roster_ = meet(options_, env_, comms_);
        const RankMap& map = roster_.map;
        members_.open(map.size());
        const int node = map.ranks[static_cast<std::size_t>(rank())].node;
        bells_.open(comms_.node, map.on_node(node), rank(), map.size());
        control_ = std::make_unique<ControlChannel>(comms_.world, map.size(), bells_, traffic_);
        watch_ = std::make_unique<PeerWatch>(map, rank(), roster_.same_pids, options_.lost_after_s,
                                             *control_, members_);
    } else {
        roster_ = alone(options_, env_);
        members_.open(1);
    }
    transfers_ =
        std::make_unique<Transfers>(comms_.transfer, rank(), roster_.tag_limit,
                                    static_cast<std::uint64_t>(options_.chunk_bytes), ports_,
                                    bells_, traffic_, pacer_, [this](int rank) { heard(rank); });
    agreement_ = std::make_unique<Agreement>(roster_.map.size(), members_);
    left_alone_at_.resize(roster_.map.ranks.size());
    all_on_node_ = roster_.map.nodes() == 1;
}

void CommLoop::close() noexcept {
    if (!uses_mpi_ || leaving_) {
        return;
    }
    try {
        bells_.close();
        comms_.close();
        int started = 0;
        check_mpi(MPI_Initialized(&started));
        if (started != 0) {
            check_mpi(MPI_Finalize());
        }
    } catch (const std::exception& error) {
        log_error("rank {}: while shutting down: {}", rank(), error.what());
        ::_exit(static_cast<int>(ExitCode::kPeer));
    }
}

void CommLoop::loop() {
    last_moved_ = last_look_ = std::chrono::steady_clock::now();
    auto pause = kShortestSleep;
    while (true) {
        const std::uint32_t seen = bells_.rung();
        const bool moved = step();
        steps_.fetch_add(1, std::memory_order_relaxed);
        const Instant now = std::chrono::steady_clock::now();
        if (now - last_look_ > kLookEvery) {
            // Nor is a wait counted while the others do not count on this rank.
            if (now - last_look_ > kOwnPause || members_.excluded(rank()) || cut_off_since_) {
                board_.forgive(now - last_look_);
            }
            if (now - last_look_ > kOwnPause && cut_off_since_) {
                *cut_off_since_ += now - last_look_;
            }
            last_look_ = now;
            look_after(now);
        }
        if (moved) {
            last_moved_ = now;
            pause = kShortestSleep;
            continue;
        }
        const bool all_left = transfers_->sent_all() && (!control_ || control_->quiet());
        if (stopping_ && (leaving_ || all_left) && leave_commands()) {
            return;
        }
        if (now - last_moved_ < kYieldFor) {
            ::sched_yield();
            continue;
        }
        bells_.sleep(seen, pause);
        if (bells_.rung() != seen) {  // something is on its way: it may take some more looks
            last_moved_ = std::chrono::steady_clock::now();
            pause = kShortestSleep;
        } else {
            const auto longest = longest_sleep(now);
            pause =
                std::min(longest == kLongestSleepMoving ? pause * 9 / 8 : pause * 3 / 2, longest);
        }
    }
}

std::chrono::microseconds CommLoop::longest_sleep(Instant now) const {
    const bool moving = transfers_->moving() || (control_ && !control_->quiet()) ||
                        std::any_of(pollers_.begin(), pollers_.end(),
                                    [](const Poller* poller) { return poller->moving(); });
    auto longest = moving && now - last_moved_ < kMovingFor ? kLongestSleepMoving : kLongestSleep;
    if (!moving && pollers_.empty() && all_on_node_) {
        longest = kLongestSleepBell;
    }
    if (const auto paced = pacer_.next()) {
        const auto wait = std::chrono::duration_cast<std::chrono::microseconds>(*paced - now);
        longest = std::clamp(wait, kShortestSleep, longest);
    }
    return longest;
}

bool CommLoop::step() {
    pacer_.forget_refusals();
    bool moved = run_commands();
    if (control_) {
        moved = control_->poll([this](Packet&& packet) { deliver(std::move(packet)); }) || moved;
    }
    moved = transfers_->poll() || moved;
    return poll_pollers() || moved;
}

bool CommLoop::run_commands() {
    std::vector<std::function<void()>> commands;
    {
        const std::lock_guard lock(command_mutex_);
        commands.swap(commands_);
    }
    for (const auto& command : commands) {
        command();
    }
    if (const auto failure = end_.requested()) {
        end_here(*failure);
    }
    return !commands.empty();
}

/// Ends the taking of commands, unless there are some left.
bool CommLoop::leave_commands() {
    const std::lock_guard lock(command_mutex_);
    takes_commands_ = !commands_.empty();
    return !takes_commands_;
}

bool CommLoop::poll_pollers() {
    bool moved = false;
    for (Poller* poller : pollers_) {
        moved = poller->poll() || moved;
    }
    return moved;
}

void CommLoop::look_after(Instant now) {
    const auto excluded = [this](int rank) { return members_.excluded(rank); };
    for (const Stall& stall : board_.check(excluded)) {
        const std::string text =
            fmt::format("waiting for {} (#{}) for {:.1f} s: missing {}", stall.name, stall.sequence,
                        stall.seconds, map().describe(stall.missing));
        if (stall.fatal && !speaks(now) && watch_->uncertain(0, now)) {
            doubt(now, text);
        } else if (stall.fatal) {
            end_here({ExitCode::kPeer, text, rank()});
        } else {
            log_warn("rank {}: {}", rank(), text);
        }
    }
    look_after_members(now);
}

void CommLoop::deliver(Packet&& packet) {
    const PacketHeader header = packet.header;
    const bool from_excluded = members_.excluded(packet.source);
    if (rank() == 0 && from_excluded) {
        watch_->ask(packet.source);
    }
    switch (header.type) {
        case PacketType::kMessage:
            ports_.mailbox(header.to).put({.from = {.rank = packet.source, .port = header.from},
                                           .kind = header.kind,
                                           .body = std::move(packet.body)});
            break;
        case PacketType::kTransfer: transfers_->announced(std::move(packet)); break;
        case PacketType::kArrived:
            arrived(header.sequence, packet.source, decode<Verdict>(packet.body));
            break;
        case PacketType::kAgreed: agreed(header.sequence, decode<Verdict>(packet.body)); break;
        case PacketType::kMembership:
            members_.apply(decode<MembershipState>(packet.body));
            membership_changed();
            break;
        case PacketType::kSuspect: {
            const auto suspect = decode<Suspect>(packet.body);
            if (watch_->note(suspect.rank)) {
                lost({suspect.rank, suspect.dead, suspect.reason});
            }
            break;
        }
        case PacketType::kAbort: {
            if (from_excluded) {
                break;  // it leaves alone
            }
            const auto verdict = decode<Verdict>(packet.body);
            end_here({verdict.code, verdict.message, packet.source});
        }
        case PacketType::kProbe:
            control_->send(packet.source,
                           {.type = PacketType::kProbeSeen, .sequence = header.sequence});
            break;
        case PacketType::kProbeSeen:
            if (from_excluded && watch_->returned(packet.source, header.sequence)) {
                static_cast<void>(
                    tell_watcher({.rank = packet.source,
                                  .kind = RankEvent::Kind::kReturned,
                                  .reason = map().describe(packet.source) + " has come back"}));
            }
            break;
        case PacketType::kAbortSeen:
        case PacketType::kHeartbeat: break;
    }
}

void CommLoop::start_watchdog() {
    if (!uses_mpi_) {
        return;
    }
    const auto cause = [this](std::chrono::duration<double> stuck) -> std::optional<Failure> {
        const auto loss = watch_->find_dead();
        if (loss && (ends_the_job(loss->rank) || stuck > kStuckWithTheDead)) {
            return Failure{ExitCode::kPeer, loss->reason, rank()};
        }
        return end_.requested();
    };
    // The communication thread is inside MPI, so this rank just leaves: the others, or mpirun, see
    // it go. Without a worker they go on.
    const auto leave = [this](Failure failure) {
        if (!ending_.exchange(true)) {
            failure.origin = rank();
            const bool speaks = rank() == 0 || (watch_->beside(0) && !watch_->alive(0));
            const bool spared = !ends_the_job(rank()) && !end_.requested();
            end_.end(failure,
                     {.map = map(), .own_rank = rank(), .speaks = speaks, .spared = spared});
        }
    };
    watchdog_ = std::make_unique<Watchdog>(
        steps_, cause, std::chrono::duration<double>(options_.lost_after_s), leave);
}

void CommLoop::end_here(const Failure& failure) noexcept {
    while (ending_.exchange(true)) {  // the watchdog is at it
        std::this_thread::sleep_for(1s);
    }
    std::vector<int> expected;
    for (int other = 0; other < map().size(); ++other) {
        if (other != rank() && watch_ && watch_->alive(other) && !members_.excluded(other)) {
            expected.push_back(other);
        }
    }
    // An excluded rank, or one that cannot reach rank 0, leaves alone: the job of the others goes
    // on.
    const bool spared = members_.excluded(rank()) || cut_off_since_;
    end_.end(failure, {.map = map(),
                       .own_rank = rank(),
                       .control = spared ? nullptr : control_.get(),
                       .expected = std::move(expected),
                       .speaks = speaks(std::chrono::steady_clock::now()),
                       .spared = spared});
}

void CommLoop::end_job(ExitCode code, const std::string& reason) {
    if (on_thread()) {
        end_here({code, reason, rank()});
    }
    end_.request({code, reason, rank()});
    if (!running()) {  // MPI is gone, or on its way out
        log_error("rank {}: {}", rank(), reason);
        ::_exit(static_cast<int>(code));
    }
    wake();
    while (true) {  // the communication thread ends the process
        std::this_thread::sleep_for(1s);
    }
}

}  // namespace cohort
