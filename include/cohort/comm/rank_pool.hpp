#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"

namespace cohort {

/// All ranks that a launcher started, for a program that makes Worlds of parts of them
/// (WorldOptions::part): several side by side, and on each rank one after another. Between Worlds
/// ranks exchange short messages through the pool. While a World lives on a rank, MPI is that
/// World's: the rank must not use send() and receive() then, but World::tell_pool and
/// PoolPart::received.
class RankPool {
public:
    struct Message {
        int from = 0;  ///< rank in the pool
        std::vector<std::byte> body;
    };

    /// Collective over all ranks that were started. Errors: UsageError without a launcher;
    /// PeerError when MPI cannot be started.
    RankPool();
    RankPool(const RankPool&) = delete;
    RankPool& operator=(const RankPool&) = delete;
    /// Without finalize() before (an error is being thrown): ends all ranks.
    ~RankPool();

    [[nodiscard]] int rank() const noexcept;
    [[nodiscard]] int size() const noexcept { return map().size(); }
    /// Where the ranks are; their roles and devices mean nothing here.
    [[nodiscard]] const RankMap& map() const noexcept;

    /// Blocks until the message has left, which for a long one takes its receiver. Errors:
    /// PeerError.
    void send(int to, const std::vector<std::byte>& body);
    /// The same without waiting: to ranks that may have died, where it is lost.
    void post(int to, std::vector<std::byte> body);
    /// The next message of any rank; none came within `limit`. Looks about a hundred times a
    /// second and sleeps in between. Errors: PeerError.
    [[nodiscard]] std::optional<Message> receive(Clock::Seconds limit);

    /// Collective, once, before there are Worlds: ranks of a host share its network card by their
    /// weights in what their Worlds send to other hosts, and receive from them (CardShare).
    /// @param bytes_per_second  of a host's card in each direction, > 0
    void share_card(double bytes_per_second);
    /// Of this rank, 1 at first; means nothing where no card is shared. From any thread.
    void set_weight(double weight);

    /// The rank's process is known to have ended; false for ranks of other hosts.
    [[nodiscard]] bool died(int rank) const;

    /// Ends all ranks at once, those in Worlds too.
    [[noreturn]] void abort(ExitCode code, const std::string& reason) const;
    /// Collective: shuts MPI down. @param lost  ranks have died: MPI would wait for them, so the
    /// process ends without it when it exits
    void finalize(bool lost = false);

    struct Impl;
    /// For the Worlds of this module.
    [[nodiscard]] Impl& impl() noexcept { return *impl_; }

private:
    std::unique_ptr<Impl> impl_;
};

/// Some ranks of a pool, those of one World.
struct PoolPart {
    RankPool* pool = nullptr;  ///< outlives the World
    std::vector<int> ranks;    ///< of the pool, in the order of their ranks in the World
    int number = 0;            ///< of the World; those that are made at the same time differ
    /// Called on each rank whose process ends because the World has failed, just before; may send
    /// through the pool. Not called where a process is killed or MPI does not answer.
    std::function<void(const std::string& reason)> ends;
    /// Called on the communication thread with what another rank of the pool has sent to this one
    /// while the World lives, within about a tenth of a second. Must not block. None: such messages
    /// wait for RankPool::receive.
    std::function<void(const RankPool::Message& message)> received = {};
};

}  // namespace cohort
