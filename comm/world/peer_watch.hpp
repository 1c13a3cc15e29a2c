#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "comm/transfer/control.hpp"
#include "comm/world/members.hpp"

namespace cohort {

/// Finds ranks that have died or fallen silent. Cost: one poll() on the processes of the own host,
/// ten times a second; a small message between rank 0 and each other rank per second, and only
/// when nothing else was sent. To be used on the communication thread.
class PeerWatch {
public:
    /// @param same_pids ranks whose process numbers mean the same here as there
    PeerWatch(const RankMap& map, int own_rank, const std::vector<int>& same_pids,
              double lost_after_s, ControlChannel& control, const Members& members);
    PeerWatch(const PeerWatch&) = delete;
    PeerWatch& operator=(const PeerWatch&) = delete;
    ~PeerWatch();

    struct Loss {
        int rank = 0;
        bool dead = false;  ///< its process has ended
        std::string reason;
    };
    /// Sends heartbeats that are due and looks after the others; to be called often. @return ranks
    /// that are found lost, each once until it is forgotten
    [[nodiscard]] std::vector<Loss> check(Instant now);
    /// A loss that somebody else has found. False when it is known already.
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
    [[nodiscard]] bool alive(int rank) const;
    /// It runs on this host, where a silent process has died or is frozen and cannot be cut off.
    [[nodiscard]] bool beside(int rank) const noexcept;
    /// Nothing was heard of a rank for longer than it takes to be lost.
    [[nodiscard]] bool silent(int rank, Instant now) const;
    /// Nothing was heard for some heartbeats: a wait may last because the link is down.
    [[nodiscard]] bool uncertain(int rank, Instant now) const;
    /// Ends the process of `rank`. False when it cannot be reached from here.
    [[nodiscard]] bool end_process(int rank) const;

private:
    struct Process {
        int rank = 0;
        int descriptor = -1;  // of a pidfd; -1 where the kernel has none
    };
    struct Known {
        bool lost = false;  ///< told by check() or note()
        Instant lost_since;
        bool asked = false;     ///< ask() was called
        bool returned = false;  ///< told by returned()
    };
    void find_new_dead(std::vector<Loss>& losses);
    void find_silent(Instant now, std::vector<Loss>& losses);
    [[nodiscard]] bool learn_of_loss(int rank);
    void probe(int rank);
    [[nodiscard]] Known& known(int rank) { return known_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] bool dead(const Process& process) const;
    [[nodiscard]] Loss death(int rank) const;
    void beat(Instant now);

    const RankMap& map_;
    std::chrono::duration<double> lost_after_;
    std::chrono::duration<double> beat_every_;
    ControlChannel& control_;
    const Members& members_;
    std::vector<Process> processes_;
    std::vector<int> partners_;  // ranks this one exchanges heartbeats with
    std::vector<Known> known_;   // by rank
    Instant last_check_;
    Instant last_look_;
};

}  // namespace cohort
