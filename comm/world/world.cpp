#include "cohort/comm/world.hpp"

#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "comm/world/comm_loop.hpp"
#include "comm/world/comm_thread.hpp"

namespace cohort {
namespace {

class WorldMessenger final : public Messenger {
public:
    WorldMessenger(CommLoop& loop, Ports& ports) : loop_(loop), ports_(ports) {}

    [[nodiscard]] int rank() const noexcept override { return loop_.rank(); }

    void send(Address to, Port from, std::uint16_t kind, std::vector<std::byte> body) override {
        check_address(to);
        if (to.rank == rank()) {
            ports_.mailbox(to.port).put(
                {.from = {.rank = rank(), .port = from}, .kind = kind, .body = std::move(body)});
            return;
        }
        loop_.send(to.rank,
                   {.type = PacketType::kMessage, .from = from, .to = to.port, .kind = kind},
                   std::move(body));
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
        loop_.start_transfer(transfer);
        return transfer;
    }

    [[nodiscard]] Mailbox& mailbox(Port port) override { return ports_.mailbox(port); }
    void set_sink(Port port, TransferSink* sink) override { ports_.sink(port).store(sink); }
    [[nodiscard]] TrafficCounters counters() const override { return loop_.counters(); }
    void set_pace(double bytes_per_second) override { loop_.set_pace(bytes_per_second); }

private:
    void check_address(Address to) const {
        check_invariant(to.rank >= 0 && to.rank < loop_.map().size(),
                        "messages go to ranks of this world");
    }

    CommLoop& loop_;
    Ports& ports_;
};

class WorldMembership final : public Membership {
public:
    explicit WorldMembership(CommLoop& loop) : loop_(loop) {}

    [[nodiscard]] bool excluded(int rank) const override { return loop_.members().excluded(rank); }
    [[nodiscard]] std::uint64_t epoch() const override { return loop_.members().epoch(); }
    void watch(std::function<void(const RankEvent&)> watcher) override {
        loop_.watch(std::move(watcher));
    }
    void exclude(int rank) override { loop_.exclude(rank); }
    void admit(int rank) override { loop_.admit(rank); }

private:
    CommLoop& loop_;
};

/// A limit that is not usable is reported when all ranks have met.
Clock::Seconds board_limit(const WorldOptions& options) {
    return Clock::Seconds(options.stall_limit_s > 0 ? options.stall_limit_s : 60);
}

}  // namespace

struct World::Impl {
    explicit Impl(const WorldOptions& options)
        : board(board_limit(options), std::make_shared<SteadyClock>()),
          loop(options, board, ports),
          messenger(loop, ports),
          membership(loop) {
        loop.start();
    }

    OperationBoard board;
    Ports ports;
    CommLoop loop;
    WorldMessenger messenger;
    WorldMembership membership;
};

World::World(const WorldOptions& options) : impl_(std::make_unique<Impl>(options)) {
}

World::~World() {
    if (impl_->loop.running() && impl_->loop.uses_mpi()) {
        impl_->loop.end_job(ExitCode::kPeer, "left the job before its end");
    }
}

int World::rank() const noexcept {
    return impl_->loop.rank();
}
const RankMap& World::map() const noexcept {
    return impl_->loop.map();
}
Role World::role() const noexcept {
    return map().ranks[static_cast<std::size_t>(rank())].role;
}
Messenger& World::messenger() noexcept {
    return impl_->messenger;
}
Membership& World::membership() noexcept {
    return impl_->membership;
}
OperationBoard& World::operations() noexcept {
    return impl_->board;
}

ExitCode World::agree(ExitCode code, std::string& message) {
    Verdict verdict = impl_->loop.agree({code, message}, "agreement");
    if (rank() == 0) {
        message = std::move(verdict.message);
    }
    return verdict.code;
}

void World::on_failure(std::function<void(ExitCode, const std::string&, bool)> record) {
    impl_->loop.on_failure(std::move(record));
}

void World::abort(ExitCode code, const std::string& reason) {
    impl_->loop.end_job(code, reason);
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

void World::finalize() {
    if (!impl_->loop.running()) {
        return;
    }
    impl_->loop.finish();
}

CommThread& comm_thread(World& world) noexcept {
    return world.impl().loop;
}

}  // namespace cohort
