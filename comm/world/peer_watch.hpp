#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "comm/base/host_connections.hpp"
#include "comm/base/node_processes.hpp"
#include "comm/transfer/control.hpp"
#include "comm/world/members.hpp"
#include "comm/world/startup.hpp"

namespace cohort {

/// Finds ranks that have died or fallen silent. Cost: one poll() on the processes of the own host
/// and a look at the connections to other hosts, ten times a second; a small message between rank 0
/// and each other rank per second, and only when nothing else was sent. To be used on the
/// communication thread.
class PeerWatch {
public:
    PeerWatch(const StartupRoster& roster, double lost_after_s, ControlChannel& control,
              const Members& members);

    struct Loss {
        int rank = 0;
        bool dead = false;  ///< its process has ended
        std::string reason;
    };
    /// Sends heartbeats that are due and looks for lost ranks; to be called often. @return newly
    /// lost ranks, each once until forget()
    [[nodiscard]] std::vector<Loss> check(Instant now);
    /// Another rank has found a loss. False when it is known already.
    [[nodiscard]] bool note(int rank);
    /// On rank 0, when a packet of an excluded rank arrives: asks that rank, once per heartbeat,
    /// whether it still runs. The packet alone proves nothing: it may be older than the rank's end.
    void ask(int rank);
    /// The answer. True for the first one that belongs to the newest exclusion.
    [[nodiscard]] bool returned(int rank, std::uint32_t epoch);
    /// `rank` is a member again: from now on it is watched as any other.
    void forget(int rank);

    /// A process of this host that has ended and is not excluded. Thread safe.
    [[nodiscard]] std::optional<Loss> find_dead() const;
    /// False for a rank that is known to be dead, so that nobody waits for its answer.
    [[nodiscard]] bool alive(int rank) const {
        return !processes_.ended(rank) && !gone_[static_cast<std::size_t>(rank)].load();
    }
    /// The rank runs on this host: when silent it has died or is frozen, it cannot be cut off.
    [[nodiscard]] bool beside(int rank) const noexcept { return processes_.knows(rank); }
    /// The host of the rank, another one, has closed all connections that this process had with it:
    /// its ranks with which there were some have ended.
    [[nodiscard]] bool host_closed(int rank) const;
    /// Nothing was heard of a rank for longer than it takes to be lost.
    [[nodiscard]] bool silent(int rank, Instant now) const;
    /// Nothing was heard for some heartbeats: a wait may last because the link is down.
    [[nodiscard]] bool uncertain(int rank, Instant now) const;
    /// Ends the process of `rank`. False when it runs on another host.
    [[nodiscard]] bool end_process(int rank) const { return processes_.kill(rank); }

private:
    struct Known {
        bool lost = false;  ///< told by check() or note()
        Instant lost_since;
        bool asked = false;     ///< ask() was called
        bool returned = false;  ///< told by returned()
    };
    void find_new_dead(std::vector<Loss>& losses);
    void find_silent(Instant now, std::vector<Loss>& losses);
    void probe(int rank);
    [[nodiscard]] Known& known(int rank) { return known_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] Loss death(int rank) const;
    void beat(Instant now);

    const RankMap& map_;
    std::chrono::duration<double> lost_after_;
    std::chrono::duration<double> beat_every_;
    ControlChannel& control_;
    const Members& members_;
    NodeProcesses processes_;
    HostConnections connections_;
    std::vector<std::atomic<bool>> gone_;  ///< by rank: its host has closed its connection
    std::vector<int> partners_;            ///< ranks with which this one exchanges heartbeats
    std::vector<Known> known_;             ///< by rank
    Instant last_check_;
    Instant last_look_;
};

}  // namespace cohort
