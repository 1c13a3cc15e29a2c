#include "cohort/comm/world.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "comm/world/comm_thread.hpp"
#include "comm/world/rank_pool.hpp"
#include "core/bytes.hpp"

namespace cohort {
namespace {

class WorldMessenger final : public Messenger {
public:
    WorldMessenger(WorldParts& parts, const CommThread& thread)
        : parts_(parts), network_(parts.network), thread_(thread) {}

    [[nodiscard]] int rank() const noexcept override { return network_.rank(); }

    void send(Address to, Port from, std::uint16_t kind, std::vector<std::byte> body) override {
        check_address(to);
        if (to.rank == rank()) {
            parts_.ports.mailbox(to.port).put(
                {.from = {.rank = rank(), .port = from}, .kind = kind, .body = std::move(body)});
            return;
        }
        check_invariant(parts_.commands.running(), "messages are sent before the end of the world");
        const PacketHeader header{
            .type = PacketType::kMessage, .from = from, .to = to.port, .kind = kind};
        parts_.commands.post([this, to, header, body = std::move(body)] {
            if (network_.reaches(to.rank)) {
                network_.control->send(to.rank, header, body);
            }
        });
    }

    [[nodiscard]] std::shared_ptr<OutgoingTransfer> start_transfer(
        Address to, Port from, std::uint16_t kind, std::vector<std::byte> body,
        std::span<const std::byte> data, ChunkOrder order,
        std::shared_ptr<const void> owner) override {
        check_address(to);
        auto transfer = std::make_shared<Outgoing>();
        transfer->to = to;
        transfer->data = data;
        transfer->owner = std::move(owner);
        transfer->plan = {.size = data.size(), .order = order};
        transfer->header = {
            .type = PacketType::kTransfer, .from = from, .to = to.port, .kind = kind};
        transfer->body = std::move(body);
        transfer->changed = [this] { network_.bells.ring_own(); };
        check_invariant(parts_.commands.running(), "transfers start before the end of the world");
        parts_.commands.post([this, transfer] { start(transfer); });
        return transfer;
    }

    [[nodiscard]] Mailbox& mailbox(Port port) override { return parts_.ports.mailbox(port); }
    void set_sink(Port port, TransferSink* sink) override { parts_.ports.sink(port).store(sink); }
    [[nodiscard]] TrafficCounters counters() const override {
        const Traffic& traffic = network_.traffic;
        return {.bytes_sent = traffic.bytes_sent.load(),
                .bytes_received = traffic.bytes_received.load(),
                .messages_sent = traffic.messages_sent.load(),
                .messages_received = traffic.messages_received.load(),
                .cpu_seconds = thread_.cpu_seconds()};
    }
    void set_pace(double bytes_per_second) override {
        network_.pacer.set_rate(bytes_per_second);
        network_.bells.ring_own();
    }

private:
    void check_address(Address to) const {
        check_invariant(to.rank >= 0 && to.rank < network_.map().size(),
                        "messages go to ranks of this world");
    }

    /// On the communication thread.
    void start(const std::shared_ptr<Outgoing>& transfer) {
        const bool local = transfer->to.rank == rank();
        if (!local && !network_.reaches(transfer->to.rank)) {
            transfer->finish();
            return;
        }
        network_.transfers->start(transfer);
        if (!local) {
            network_.control->send(transfer->to.rank, transfer->header, transfer->body);
        }
    }

    WorldParts& parts_;
    Network& network_;
    const CommThread& thread_;
};

// How a job ends well. With all ranks alive: 1. all ranks agree that the job is over; 2. everything
// leaves; 3. MPI is shut down. After a loss MPI cannot be shut down, it would wait for the lost
// rank:
//  1. the members agree that the job is over; from then on no leaving rank counts as lost
//  2. they agree a second time, for some seconds at most: then all of them know, and no rank needs
//     another one any more
//  3. rank 0 tells excluded ranks that it hears, and ends those that may still live
//  4. each process ends without MPI_Finalize

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
    const bool aborts = unreachable && parts.network.own_mpi;
    static_cast<void>(::on_exit(end_process, aborts ? &abort_mark : nullptr));
}

/// Collective over the members.
void end_orderly(WorldParts& parts, CommThread& thread) {
    parts.commands.post([&parts] { parts.membership.end_watch(); });
    const Verdict all = parts.agreement.agree_on_end();
    parts.succession.allow({});
    check_invariant(all.code == ExitCode::kDone, "all ranks finalize at the same point");
    if (all.epoch > 0 || parts.options.predecessor != nullptr) {
        leave_without_mpi(parts, thread);
        return;
    }
    parts.commands.post([&parts] { parts.progress.stop(false); });
    thread.join();
}

/// An unusable limit is reported once all ranks have met.
Clock::Seconds board_limit(const WorldOptions& options) {
    return Clock::Seconds(options.stall_limit_s > 0 ? options.stall_limit_s : 60);
}

}  // namespace

WorldParts::WorldParts(const WorldOptions& with)
    : options(with),
      board(board_limit(with), std::make_shared<SteadyClock>()),
      network(!with.alone && env.launcher != "none"),
      cut_off(network, board, 2 * with.stall_limit_s) {
}

struct World::Impl {
    explicit Impl(const WorldOptions& options) : parts(options) {
        if (options.predecessor != nullptr) {
            Impl& before = options.predecessor->impl();
            const int rank = before.parts.network.rank();
            parts.network.inherited = {.parent = before.parts.network.comms.world,
                                       .ranks = before.survivors.ranks,
                                       .first_rank = before.parts.network.map().first_rank(rank),
                                       .lost = [&before] { return before.lost_survivor(); }};
        }
        thread.start();
    }

    WorldParts parts;
    CommThread thread{parts};
    WorldMessenger messenger{parts, thread};
    Survivors survivors;  ///< after retire()

    /// One of them has died since; nothing: not as far as it is known. From any thread.
    [[nodiscard]] std::optional<int> lost_survivor() {
        const auto dead = [this](int other) { return !parts.network.watch->alive(other); };
        const auto found = std::ranges::find_if(survivors.ranks, dead);
        return found == survivors.ranks.end() ? std::nullopt : std::optional(*found);
    }
};

World::World(const WorldOptions& options) : impl_(std::make_unique<Impl>(options)) {
}

World::~World() {
    if (impl_->parts.commands.running() && impl_->parts.network.uses_mpi) {
        abort(ExitCode::kPeer, "left the job before its end");
    }
}

int World::rank() const noexcept {
    return impl_->parts.network.rank();
}
const RankMap& World::map() const noexcept {
    return impl_->parts.network.map();
}
Role World::role() const noexcept {
    return map().ranks[static_cast<std::size_t>(rank())].role;
}
Messenger& World::messenger() noexcept {
    return impl_->messenger;
}
Membership& World::membership() noexcept {
    return impl_->parts.membership;
}
OperationBoard& World::operations() noexcept {
    return impl_->parts.board;
}

void World::tell_pool(int pool_rank, std::vector<std::byte> body) {
    WorldParts& parts = impl_->parts;
    check_invariant(parts.options.part.has_value(), "this World is a part of a pool");
    parts.commands.post([&parts, pool_rank, body = std::move(body)]() mutable {
        parts.options.part->pool->impl().post(pool_rank, std::move(body));
    });
}

ExitCode World::agree(ExitCode code, std::string& message) {
    Verdict verdict = impl_->parts.agreement.agree({code, message}, "agreement");
    if (rank() == 0) {
        message = std::move(verdict.message);
    }
    return verdict.code;
}

void World::on_failure(std::function<void(ExitCode, const std::string&, bool)> record) {
    impl_->parts.job_end.on_failure(std::move(record));
}

void World::abort(ExitCode code, const std::string& reason) {
    impl_->parts.job_end.abort(code, reason);
}

void World::abort(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        abort(error.exit_code(), error.what());
    } catch (const std::bad_alloc&) {
        abort(ExitCode::kDevice, "out of memory");
    } catch (const std::exception& error) {
        abort(static_cast<ExitCode>(EXIT_FAILURE),
              std::string("internal error, please report it: ") + error.what());
    } catch (...) {
        abort(static_cast<ExitCode>(EXIT_FAILURE), "internal error, please report it: no text");
    }
}

void World::survive(std::function<bool()> ready) {
    if (impl_->parts.network.uses_mpi) {
        impl_->parts.succession.allow(std::move(ready));
    }
}

bool World::lost() const noexcept {
    return impl_->parts.succession.active();
}

World::Survivors World::retire() {
    WorldParts& parts = impl_->parts;
    impl_->survivors = parts.succession.wait();
    const std::vector<int>& ranks = impl_->survivors.ranks;
    for (int other = 0; other < size(); ++other) {
        if (!std::ranges::binary_search(ranks, other) && parts.network.watch->alive(other)) {
            // A frozen one, if it is of this host; mpirun would wait for its end.
            static_cast<void>(parts.network.watch->end_process(other));
        }
    }
    parts.commands.post([&parts] { parts.progress.stop(true); });
    impl_->thread.join();
    static_cast<void>(::on_exit(end_process, nullptr));  // MPI cannot be shut down any more
    return impl_->survivors;
}

void World::finalize() {
    if (impl_->parts.commands.running()) {
        end_orderly(impl_->parts, impl_->thread);
    }
}

bool World::left_mpi() const noexcept {
    return impl_->parts.progress.stopped_at_once();
}

CollectiveContext& collective_context(World& world) noexcept {
    return world.impl().parts.collectives;
}

}  // namespace cohort
