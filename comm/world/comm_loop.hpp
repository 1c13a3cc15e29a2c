#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cohort/comm/membership.hpp"
#include "comm/base/communicators.hpp"
#include "comm/base/doorbell.hpp"
#include "comm/transfer/control.hpp"
#include "comm/transfer/transfers.hpp"
#include "comm/world/agreement.hpp"
#include "comm/world/comm_thread.hpp"
#include "comm/world/job_end.hpp"
#include "comm/world/peer_watch.hpp"
#include "comm/world/startup.hpp"
#include "comm/world/watchdog.hpp"

namespace cohort {

/// The communication thread: the only one that calls MPI. Each step takes what other threads asked
/// for, moves messages and transfers, polls collectives, and now and then looks after the other
/// ranks and the named waits. It yields for some microseconds after something has moved and then
/// sleeps on its bell, at most 2 ms: MPI tells nobody when something arrives from another host.
/// Ranks of the own host ring, so that a job on one host may sleep longer.
class CommLoop final : public CommThread {
public:
    CommLoop(const WorldOptions& options, OperationBoard& board, Ports& ports);
    ~CommLoop() override;

    /// Starts the thread; returns when the ranks know each other. Errors: those of World::World.
    void start();

    [[nodiscard]] bool uses_mpi() const noexcept override { return uses_mpi_; }
    [[nodiscard]] const Communicators& communicators() const noexcept override { return comms_; }
    [[nodiscard]] int rank() const noexcept override { return roster_.own_rank; }
    [[nodiscard]] const RankMap& map() const noexcept override { return roster_.map; }
    [[nodiscard]] OperationBoard& operations() noexcept override { return board_; }
    [[nodiscard]] const Members& members() const noexcept override { return members_; }
    void add_poller(Poller& poller) override;
    void remove_poller(Poller& poller) override;
    void wake() noexcept override { bells_.ring_own(); }
    void wake(int rank) noexcept override { bells_.ring(rank); }
    void run(const std::function<void()>& work) override;
    [[nodiscard]] Pacer& pacer() noexcept override { return pacer_; }
    void heard(int rank) noexcept override { control_->heard(rank); }
    void count_sent(std::uint64_t bytes, std::uint64_t messages) noexcept override {
        traffic_.sent(bytes, messages);
    }
    void count_received(std::uint64_t bytes, std::uint64_t messages) noexcept override {
        traffic_.received(bytes, messages);
    }

    /// Sends a control message to another rank. Thread safe.
    void send(int rank, const PacketHeader& header, std::vector<std::byte> body);
    /// Announces and starts a transfer to any rank. Thread safe.
    void start_transfer(std::shared_ptr<Outgoing> transfer);
    /// See World::agree. `name` is that of the wait.
    [[nodiscard]] Verdict agree(Verdict own, std::string_view name);
    [[nodiscard]] TrafficCounters counters() const;
    void set_pace(double bytes_per_second) noexcept;

    void on_failure(JobEnd::Record record);
    [[noreturn]] void end_job(ExitCode code, const std::string& reason);
    /// Collective: waits for all members. Then lets everything leave, shuts MPI down and ends the
    /// thread; after a loss MPI is left as it is, and the process ends without it.
    void finish();

    // See Membership.
    void watch(std::function<void(const RankEvent&)> watcher);
    void exclude(int rank);
    void admit(int rank);
    [[nodiscard]] bool running() const noexcept { return running_.load(); }

private:
    void thread_main(std::promise<void>& ready);
    void open();
    void loop();
    bool step();
    bool run_commands();
    bool poll_pollers();
    void look_after(Instant now);
    void deliver(Packet&& packet);
    void arrived(std::uint32_t sequence, int rank, Verdict verdict);
    void agreed(std::uint32_t sequence, Verdict verdict);
    void conclude_agreements();
    [[nodiscard]] std::uint32_t arrive(Verdict own, bool last);
    void shut_down();
    void tell_excluded();
    void leave_without_mpi();
    void join_thread();
    void look_after_members(Instant now);
    void lost(const PeerWatch::Loss& loss);
    [[nodiscard]] bool tell_watcher(const RankEvent& event);
    [[nodiscard]] bool ends_the_job(int rank) const;
    [[nodiscard]] bool speaks(Instant now) const;
    void doubt(Instant now, const std::string& reason);
    void look_for_rank_0(Instant now);
    void tell_membership(const MembershipState& state, int changed);
    void membership_changed();
    [[nodiscard]] bool reaches(int rank) const noexcept;
    void close() noexcept;
    [[noreturn]] void end_here(const Failure& failure) noexcept;
    void start_watchdog();
    /// False when the thread takes no commands, or no more.
    [[nodiscard]] bool try_post(std::function<void()> command);
    /// Errors: PeerError when the thread takes no commands.
    void post(std::function<void()> command);
    [[nodiscard]] bool leave_commands();
    [[nodiscard]] std::chrono::microseconds longest_sleep(Instant now) const;
    [[nodiscard]] bool on_thread() const noexcept;
    void stop_cpu_clock();

    const WorldOptions options_;
    OperationBoard& board_;
    Ports& ports_;
    const LaunchEnv env_;
    const bool uses_mpi_;
    JobEnd end_;
    Traffic traffic_;
    Doorbells bells_;
    Communicators comms_;
    Roster roster_;
    Members members_;
    Pacer pacer_;
    std::unique_ptr<ControlChannel> control_;
    std::unique_ptr<PeerWatch> watch_;
    std::unique_ptr<Transfers> transfers_;
    std::unique_ptr<Agreement> agreement_;
    std::vector<Poller*> pollers_;      // communication thread only
    bool stopping_ = false;             // communication thread only
    bool leaving_ = false;              // after a loss: without waiting; communication thread only
    bool over_ = false;                 // all know that the job is over; communication thread only
    std::uint32_t last_agreement_ = 0;  // at the end of the job; communication thread only
    std::vector<std::uint64_t> left_alone_at_;  // by rank, an epoch; communication thread only
    std::optional<Instant> cut_off_since_;      // communication thread only
    bool all_on_node_ = false;
    Instant last_moved_;  // communication thread only
    Instant last_look_;   // communication thread only

    mutable std::mutex watcher_mutex_;
    std::function<void(const RankEvent&)> watcher_;
    std::atomic<bool> excludes_by_itself_{false};  // rank 0: the watcher has gone, or the job ends

    std::mutex command_mutex_;
    std::vector<std::function<void()>> commands_;
    bool takes_commands_ = false;  // under the mutex
    std::atomic<bool> mpi_started_{false};
    std::atomic<bool> running_{false};
    std::atomic<bool> ending_{false};
    std::atomic<std::uint64_t> steps_{0};
    std::unique_ptr<Watchdog> watchdog_;

    mutable std::mutex clock_mutex_;
    bool clock_runs_ = false;
    clockid_t cpu_clock_{};
    double cpu_seconds_ = 0;
    std::thread thread_;
    std::atomic<std::thread::id> thread_id_;
};

}  // namespace cohort
