// What other threads ask of the communication thread.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <utility>

#include "comm/base/running_time.hpp"
#include "comm/world/comm_loop.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

double seconds_of(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

constexpr std::chrono::milliseconds kStartPoll{50};
/// From here on a wait for the communication thread has a name.
constexpr std::chrono::milliseconds kWorthAName{100};

/// For when MPI holds the communication thread and nobody else can be reached.
[[noreturn]] void leave_at_once(const std::string& why) {
    log_error("{}", why);
    ::_exit(static_cast<int>(ExitCode::kPeer));
}

}  // namespace

// MPI cannot be told to wait for a while only: a rank that ends before its MPI has started keeps
// the others in MPI_Init.
void CommLoop::start() {
    std::promise<void> ready;
    std::future<void> started = ready.get_future();
    thread_ = std::thread([this, &ready] { thread_main(ready); });
    const double stall_limit = options_.stall_limit_s > 0 ? options_.stall_limit_s : 60;
    const std::chrono::duration<double> limit(2 * stall_limit);
    RunningTime time;
    while (uses_mpi_ && started.wait_for(kStartPoll) != std::future_status::ready) {
        const bool begun = mpi_started_.load();  // then the ranks' meeting has limits of its own
        if (time.look() > (begun ? 3 * limit : limit)) {
            leave_at_once(fmt::format("rank {}: {}: not all ranks came within {:.0f} s",
                                      env_.world_rank, begun ? "start" : "MPI start",
                                      time.look().count()));
        }
    }
    started.get();
}

bool CommLoop::try_post(std::function<void()> command) {
    {
        const std::lock_guard lock(command_mutex_);
        if (!takes_commands_) {
            return false;
        }
        commands_.push_back(std::move(command));
    }
    wake();
    return true;
}

void CommLoop::post(std::function<void()> command) {
    if (!try_post(std::move(command))) {
        fail<PeerError>({.where = "world", .what = "it is finalized already"});
    }
}

void CommLoop::send(int to, const PacketHeader& header, std::vector<std::byte> body) {
    check_invariant(running(), "messages are sent before the world is finalized");
    post([this, to, header, body = std::move(body)] {
        if (reaches(to)) {
            control_->send(to, header, body);
        }
    });
}

void CommLoop::start_transfer(std::shared_ptr<Outgoing> transfer) {
    check_invariant(running(), "transfers are started before the world is finalized");
    transfer->changed = [this] { wake(); };
    post([this, transfer = std::move(transfer)] {
        if (transfer->to.rank != rank() && !reaches(transfer->to.rank)) {
            transfer->finish();
            return;
        }
        transfers_->start(transfer);
        if (transfer->to.rank != rank()) {
            control_->send(transfer->to.rank, transfer->header, transfer->body);
        }
    });
}

void CommLoop::add_poller(Poller& poller) {
    post([this, &poller] {
        pollers_.push_back(&poller);
        poller.members_changed();
    });
}

void CommLoop::remove_poller(Poller& poller) {
    try {
        run([this, &poller] { std::erase(pollers_, &poller); });
    } catch (const PeerError&) {
        return;  // the thread has ended, and polls nobody
    }
}

bool CommLoop::on_thread() const noexcept {
    return thread_id_.load() == std::this_thread::get_id();
}

void CommLoop::run(const std::function<void()>& work) {
    if (on_thread()) {
        work();
        return;
    }
    std::promise<void> done;
    std::future<void> ended = done.get_future();
    post([&work, &done] {
        try {
            work();
            done.set_value();
        } catch (...) {
            done.set_exception(std::current_exception());
        }
    });
    std::optional<OperationBoard::Wait> named;
    if (ended.wait_for(kWorthAName) != std::future_status::ready) {
        named = board_.begin("own communication thread", 0);
    }
    ended.get();
}

TrafficCounters CommLoop::counters() const {
    const std::lock_guard lock(clock_mutex_);
    return {.bytes_sent = traffic_.bytes_sent.load(),
            .bytes_received = traffic_.bytes_received.load(),
            .messages_sent = traffic_.messages_sent.load(),
            .messages_received = traffic_.messages_received.load(),
            .cpu_seconds = clock_runs_ ? seconds_of(cpu_clock_) : cpu_seconds_};
}

void CommLoop::set_pace(double bytes_per_second) noexcept {
    pacer_.set_rate(bytes_per_second);
    wake();
}

void CommLoop::stop_cpu_clock() {
    const std::lock_guard lock(clock_mutex_);
    cpu_seconds_ = clock_runs_ ? seconds_of(cpu_clock_) : 0;
    clock_runs_ = false;
}

void CommLoop::on_failure(JobEnd::Record record) {
    end_.on_failure(std::move(record));
}

}  // namespace cohort
