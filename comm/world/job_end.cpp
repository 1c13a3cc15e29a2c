#include "comm/world/job_end.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <set>
#include <thread>
#include <utility>

#include "comm/world/agreement.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 1s;
/// Past this the process ends whatever still blocks it.
constexpr auto kEndPatience = 6s;
constexpr std::size_t kOperationsLogged = 16;

void leave_for_sure(ExitCode code) {
    std::thread([code] {
        std::this_thread::sleep_for(kEndPatience);
        ::_exit(static_cast<int>(code));  // nothing that could wait for a lock
    }).detach();
}

}  // namespace

void JobEnd::on_failure(Record record) {
    const std::lock_guard lock(mutex_);
    record_ = std::move(record);
}

std::optional<Failure> JobEnd::requested() const {
    const std::lock_guard lock(mutex_);
    return requested_;
}

void JobEnd::abort(ExitCode code, const std::string& reason) {
    const Failure failure{code, reason, network_.rank()};
    if (commands_.on_thread()) {
        end(failure);
    }
    {
        const std::lock_guard lock(mutex_);
        requested_ = requested_ ? requested_ : failure;
    }
    if (!commands_.running()) {  // MPI has ended, or is about to
        log_error("rank {}: {}", network_.rank(), reason);
        ::_exit(static_cast<int>(code));
    }
    network_.bells.ring_own();
    while (true) {  // the communication thread ends the process
        std::this_thread::sleep_for(1s);
    }
}

void JobEnd::end(const Failure& failure) noexcept {
    while (ending_.exchange(true)) {  // another thread ends the process
        std::this_thread::sleep_for(1s);
    }
    const bool spared = network_.members.excluded(network_.rank()) || cut_off_.doubts();
    end(failure, {.tells = network_.control && !spared,
                  .speaks = network_.speaks(std::chrono::steady_clock::now()),
                  .spared = spared});
}

void JobEnd::leave(Failure failure, bool spared) noexcept {
    if (!ending_.exchange(true)) {
        failure.origin = network_.rank();
        const PeerWatch& watch = *network_.watch;
        const bool speaks = failure.origin == 0 || (watch.beside(0) && !watch.alive(0));
        end(failure, {.speaks = speaks, .spared = spared});
    }
}

void JobEnd::end(const Failure& failure, const Role& role) noexcept {
    try {
        leave_for_sure(failure.code);
        leave_record(failure, role);
        if (role.tells) {
            tell(failure, role.speaks);
        }
        if (role.tells && network_.ends) {
            network_.ends(failure.reason);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "while ending the job: %s\n", error.what());
    }
    std::fflush(nullptr);
    if (role.tells && role.speaks && network_.own_mpi) {
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(failure.code));
    }
    ::_exit(static_cast<int>(failure.code));
}

void JobEnd::leave_record(const Failure& failure, const Role& role) {
    const RankMap& map = network_.map();
    const std::string reason =
        map.size() > 1 ? map.describe(failure.origin) + ": " + failure.reason : failure.reason;
    std::vector<std::string> operations = board_.last_operations();
    if (operations.size() > kOperationsLogged) {
        operations.erase(operations.begin(), operations.end() - kOperationsLogged);
    }
    log_error(
        "rank {}: {} with code {}: {}\n  last operations of rank {}: {}", network_.rank(),
        role.spared ? "this rank leaves" : "the job ends", static_cast<int>(failure.code), reason,
        network_.rank(),
        operations.empty() ? "none" : fmt::format("\n    {}", fmt::join(operations, "\n    ")));
    Record record;
    {
        const std::lock_guard lock(mutex_);
        record = std::exchange(record_, nullptr);
    }
    if (record && !role.spared) {
        record(failure.code, reason, role.speaks);
    }
}

std::vector<int> JobEnd::others_alive() const {
    std::vector<int> ranks;
    for (int other = 0; other < network_.map().size(); ++other) {
        if (other != network_.rank() && network_.watch->alive(other) &&
            !network_.members.excluded(other)) {
            ranks.push_back(other);
        }
    }
    return ranks;
}

void JobEnd::tell(const Failure& failure, bool speaks) {
    ControlChannel& control = *network_.control;
    const bool began_here = failure.origin == network_.rank();
    std::set<int> silent;
    if (began_here) {
        const auto body = encode(Verdict{failure.code, failure.reason});
        for (const int rank : others_alive()) {
            silent.insert(rank);
            control.send(rank, {.type = PacketType::kAbort}, body);
        }
    } else {
        control.send(failure.origin, {.type = PacketType::kAbortSeen});
    }
    // The others have kGrace to leave their records before the job is aborted.
    const bool last = !began_here && !speaks;
    const auto end = std::chrono::steady_clock::now() + (last ? 2 * kGrace : kGrace);
    while (std::chrono::steady_clock::now() < end && !(began_here && silent.empty())) {
        control.poll([&](Packet&& packet) {
            const PacketType type = packet.header.type;
            if (type == PacketType::kAbortSeen || type == PacketType::kAbort) {
                silent.erase(packet.source);
            }
        });
        std::this_thread::sleep_for(200us);
    }
}

}  // namespace cohort
