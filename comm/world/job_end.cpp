#include "comm/world/job_end.hpp"

#include <fmt/format.h>
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

[[noreturn]] void leave(ExitCode code) noexcept {
    std::fflush(nullptr);
    ::_exit(static_cast<int>(code));
}

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

void JobEnd::request(Failure failure) {
    const std::lock_guard lock(mutex_);
    if (!requested_) {
        requested_ = std::move(failure);
    }
}

std::optional<Failure> JobEnd::requested() const {
    const std::lock_guard lock(mutex_);
    return requested_;
}

void JobEnd::leave_record(const Failure& failure, const Reach& reach) {
    const std::string reason = reach.map.size() > 1
                                   ? reach.map.describe(failure.origin) + ": " + failure.reason
                                   : failure.reason;
    std::vector<std::string> operations = board_.last_operations();
    if (operations.size() > kOperationsLogged) {
        operations.erase(operations.begin(), operations.end() - kOperationsLogged);
    }
    log_error(
        "rank {}: {} with code {}: {}\n  last operations of rank {}: {}", reach.own_rank,
        reach.spared ? "this rank leaves" : "the job ends", static_cast<int>(failure.code), reason,
        reach.own_rank,
        operations.empty() ? "none" : fmt::format("\n    {}", fmt::join(operations, "\n    ")));
    Record record;
    {
        const std::lock_guard lock(mutex_);
        record = std::exchange(record_, nullptr);
    }
    if (record && !reach.spared) {
        record(failure.code, reason, reach.speaks);
    }
}

void JobEnd::tell(const Failure& failure, const Reach& reach) {
    const bool began_here = failure.origin == reach.own_rank;
    std::set<int> silent;
    if (began_here) {
        silent.insert(reach.expected.begin(), reach.expected.end());
        const auto body = encode(Verdict{failure.code, failure.reason});
        for (const int rank : silent) {
            reach.control->send(rank, {.type = PacketType::kAbort}, body);
        }
    } else {
        reach.control->send(failure.origin, {.type = PacketType::kAbortSeen});
    }
    // The others have kGrace to leave their records before the job is aborted.
    const bool last = !began_here && !reach.speaks;
    const auto end = std::chrono::steady_clock::now() + (last ? 2 * kGrace : kGrace);
    while (std::chrono::steady_clock::now() < end && !(began_here && silent.empty())) {
        reach.control->poll([&](Packet&& packet) {
            const PacketType type = packet.header.type;
            if (type == PacketType::kAbortSeen || type == PacketType::kAbort) {
                silent.erase(packet.source);
            }
        });
        std::this_thread::sleep_for(200us);
    }
}

void JobEnd::end(const Failure& failure, const Reach& reach) noexcept {
    try {
        leave_for_sure(failure.code);
        leave_record(failure, reach);
        if (reach.control != nullptr) {
            tell(failure, reach);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "while ending the job: %s\n", error.what());
    }
    if (reach.control != nullptr && reach.speaks) {
        std::fflush(nullptr);
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(failure.code));
    }
    leave(failure.code);
}

}  // namespace cohort
