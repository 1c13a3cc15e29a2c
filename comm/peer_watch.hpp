#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "control.hpp"

namespace cohort {

/// Finds ranks that have died or fallen silent. Cost: one poll() on the processes of the own host,
/// ten times a second; a small message between rank 0 and each other rank per second, and only
/// when nothing else was sent. To be used on the communication thread.
class PeerWatch {
public:
    /// @param same_pids ranks whose process numbers mean the same here as there
    PeerWatch(const RankMap& map, int own_rank, const std::vector<int>& same_pids,
              double lost_after_s, ControlChannel& control);
    PeerWatch(const PeerWatch&) = delete;
    PeerWatch& operator=(const PeerWatch&) = delete;
    ~PeerWatch();

    struct Loss {
        int rank = 0;
        std::string reason;
    };
    /// Sends heartbeats that are due and looks after the others; to be called often.
    [[nodiscard]] std::optional<Loss> check(Instant now);
    /// A process of this host that has ended. Thread safe.
    [[nodiscard]] std::optional<Loss> find_dead() const;
    /// False for a rank that is known to be dead, so that nobody waits for its answer.
    [[nodiscard]] bool alive(int rank) const;

private:
    struct Process {
        int rank = 0;
        int descriptor = -1;  // of a pidfd; -1 where the kernel has none
    };
    [[nodiscard]] std::optional<Loss> find_silent(Instant now) const;
    [[nodiscard]] bool dead(const Process& process) const;
    void beat(Instant now);

    const RankMap& map_;
    std::chrono::duration<double> lost_after_;
    std::chrono::duration<double> beat_every_;
    ControlChannel& control_;
    std::vector<Process> processes_;
    std::vector<int> partners_;  // ranks this one exchanges heartbeats with
    Instant last_check_;
    Instant last_look_;
};

}  // namespace cohort
