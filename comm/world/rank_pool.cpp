#include "comm/world/rank_pool.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "comm/base/dead_tcp_mask.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// Messages have a communicator of their own: Open MPI's create_group, by which Worlds are made,
/// sends on `world` with tags like any other.
constexpr int kPoolTag = 0;
constexpr std::chrono::milliseconds kPoolLook{10};

}  // namespace

RankPool::RankPool() : impl_(std::make_unique<Impl>()) {
    if (impl_->env.launcher == "none") {
        fail<UsageError>(
            {.where = "ranks", .what = "none were started", .expected = "mpirun or srun"});
    }
    (void)start_mpi(impl_->env);  // in a pool's own program nothing has started MPI before
    impl_->comms.open_world();
    impl_->roster = meet({}, impl_->env, impl_->comms);
    impl_->processes.emplace(impl_->roster.map, impl_->roster.same_pids);
    impl_->open = true;
}

RankPool::~RankPool() {
    if (impl_->open) {
        abort(ExitCode::kPeer, "left the other ranks before their end");
    }
}

int RankPool::rank() const noexcept {
    return impl_->roster.own_rank;
}
const RankMap& RankPool::map() const noexcept {
    return impl_->roster.map;
}

void RankPool::send(int to, const std::vector<std::byte>& body) {
    const DeadTcpMask mask;
    Impl::Posted& one = impl_->post(to, body);
    while (!ended(one.request)) {
        std::this_thread::sleep_for(kPoolLook);
    }
}

void RankPool::post(int to, std::vector<std::byte> body) {
    const DeadTcpMask mask;
    impl_->post(to, std::move(body));
}

std::optional<RankPool::Message> RankPool::receive(Clock::Seconds limit) {
    const DeadTcpMask mask;
    const auto end = std::chrono::steady_clock::now() + limit;
    while (true) {
        if (auto message = impl_->probe()) {
            return message;
        }
        const auto left = end - std::chrono::steady_clock::now();
        if (left <= left.zero()) {
            return std::nullopt;
        }
        std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(left, kPoolLook));
    }
}

RankPool::Impl::Posted& RankPool::Impl::post(int to, std::vector<std::byte> body) {
    posted.remove_if([](Posted& before) { return ended(before.request); });
    Posted& one = posted.emplace_back(Posted{.body = std::move(body)});
    check_mpi(MPI_Isend(one.body.data(), mpi_count(one.body.size()), MPI_BYTE, to, kPoolTag,
                        comms.transfer, &one.request));
    return one;
}

std::optional<RankPool::Message> RankPool::Impl::probe() const {
    int found = 0;
    MPI_Status status{};
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kPoolTag, comms.transfer, &found, &status));
    if (found == 0) {
        return std::nullopt;
    }
    int count = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &count));
    Message message{.from = status.MPI_SOURCE,
                    .body = std::vector<std::byte>(static_cast<std::size_t>(count))};
    check_mpi(MPI_Recv(message.body.data(), count, MPI_BYTE, status.MPI_SOURCE, kPoolTag,
                       comms.transfer, MPI_STATUS_IGNORE));
    return message;
}

void RankPool::share_card(double bytes_per_second) {
    struct Note {
        std::int64_t pid = 0;
        int descriptor = -1;
    };
    const RankInfo& own = map().ranks[static_cast<std::size_t>(rank())];
    const std::size_t users = map().on_node(own.node).size();
    const std::size_t bytes = users * sizeof(CardUser);
    const bool leads = own.node_rank == 0;
    try {
        Note note;
        if (leads) {
            impl_->card_users = NodeMemory::create(bytes);
            for (std::size_t i = 0; i < users; ++i) {
                ::new (impl_->card_users.data() + i * sizeof(CardUser)) CardUser;
            }
            note = {.pid = own.pid, .descriptor = impl_->card_users.descriptor()};
        }
        check_mpi(MPI_Bcast(&note, sizeof note, MPI_BYTE, 0, impl_->comms.node));
        if (!leads) {
            impl_->card_users = NodeMemory::open(note.pid, note.descriptor, bytes);
        }
        check_mpi(MPI_Barrier(impl_->comms.node));
        impl_->card_users.close_descriptor();
    } catch (const Error& error) {  // others wait for this rank
        abort(error.exit_code(), error.what());
    }
    auto* const first = reinterpret_cast<CardUser*>(impl_->card_users.data());
    impl_->card = {{first, users}, static_cast<std::size_t>(own.node_rank), bytes_per_second};
}

void RankPool::set_weight(double weight) {
    impl_->card.set_weight(weight);
}

bool RankPool::died(int rank) const {
    return impl_->processes->knows(rank) && impl_->processes->ended(rank);
}

void RankPool::abort(ExitCode code, const std::string& reason) const {
    log_error("rank {}: all ranks end with code {}: {}", rank(), static_cast<int>(code), reason);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    ::_exit(static_cast<int>(code));
}

void RankPool::finalize(bool lost) {
    impl_->open = false;
    if (lost) {
        constexpr auto kLeave = [](int status, void*) {
            std::fflush(nullptr);
            ::_exit(status);
        };
        static_cast<void>(::on_exit(kLeave, nullptr));
        return;
    }
    impl_->comms.close();
    check_mpi(MPI_Finalize());
}

}  // namespace cohort
