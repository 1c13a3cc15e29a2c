#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace cohort {

/// Something that happened to another rank.
struct RankEvent {
    enum class Kind : std::uint8_t {
        kSilent,   ///< it has died, or nothing was heard of it for WorldOptions::lost_after_s
        kReturned  ///< a sign of life of a rank that is excluded
    };
    int rank = 0;  ///< in the world
    Kind kind = Kind::kSilent;
    bool dead = false;   ///< kSilent: its process is known to have ended
    std::string reason;  ///< "rank 3 (host h1, pid 4711) has died"
};

/// Which ranks still belong to the job. Rank 0 decides; the others are told by their communication
/// threads. An excluded rank is sent nothing more and never waited for; rings that it was part of
/// break. Messages and transfers to or from it are abandoned: their memory stays valid. Thread
/// safe.
class Membership {
public:
    Membership() = default;
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;
    virtual ~Membership() = default;

    [[nodiscard]] virtual bool excluded(int rank) const = 0;
    /// Counts changes, the same on all ranks once they have heard of it.
    [[nodiscard]] virtual std::uint64_t epoch() const = 0;

    /// On rank 0: `watcher` is told, on the communication thread, of what happens to others; must
    /// not block. Without a watcher any loss ends the job; once one has been taken away, workers
    /// that are lost are excluded without a word to anybody. Each silence is told once.
    virtual void watch(std::function<void(const RankEvent&)> watcher) = 0;
    /// On rank 0: the job goes on without `rank`. A rank that is excluded and alive is told; it
    /// stays and may be admitted again.
    virtual void exclude(int rank) = 0;
    /// On rank 0: a rank that came back belongs to the job again, with nothing of what was before.
    virtual void admit(int rank) = 0;
};

}  // namespace cohort
