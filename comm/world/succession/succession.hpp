#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace cohort {

/// What ranks tell each other once the job has lost a rank that it cannot go on without.
struct SuccessionNote {
    std::vector<std::int32_t> gone;    ///< ranks that the sender counts as lost
    std::vector<std::int32_t> silent;  ///< those of them that only said nothing
    bool decided = false;              ///< the ranks that are not gone are the next world
    std::string reason;                ///< the loss that began it, a sentence
    auto fields() { return std::tie(gone, silent, decided, reason); }
};

/// How the ranks that are left agree on who they are, when rank 0 or a server has died. Pure: the
/// communication thread carries its notes, and tells it the time.
///  1. A rank that learns of a death tells every other rank all that it counts as lost, and again
///     whenever it learns of more. A rank that is counted as lost never comes back.
///  2. The lowest rank that is left leads. Once every rank that is left has told the same list as
///     the leader's own, the leader decides: those are the ranks of the next world.
///  3. A rank that says nothing for `patience` counts as lost too: for the leader, and after twice
///     that time, when it is the leader, for the others. One that is alive all the same leaves when
///     it reads that it is counted as lost.
///  4. It may also be that a link is down, and that the silent ones say the same of these. So only
///     more than half of those that are left or silent go on, or half with the lowest of them; the
///     others leave.
/// A leader may die after its decision has reached some ranks only. Those cannot form their world,
/// as it has the dead leader in it; the others decide once more, without them. So of all decisions
/// at most one becomes a world.
class Succession {
public:
    using Instant = std::chrono::steady_clock::time_point;
    using Seconds = std::chrono::duration<double>;
    struct Outgoing {
        int to = 0;
        SuccessionNote note;
    };

    Succession(int own, int ranks, Seconds patience)
        : own_(own), ranks_(ranks), patience_(patience) {}

    /// @param gone  all that are known to be lost, those excluded before included
    void begin(const std::set<int>& gone, const std::string& reason, Instant now);
    [[nodiscard]] bool active() const noexcept { return active_; }
    /// One more rank is lost.
    void lost(int rank, Instant now);
    void heard(int from, const SuccessionNote& note, Instant now);
    /// To be called often.
    void look(Instant now);
    /// What is to be sent since the last call, to ranks that are lost too: they may be alive.
    [[nodiscard]] std::vector<Outgoing> take();

    /// The ranks of the next world, ascending; nothing before the decision.
    [[nodiscard]] const std::optional<std::vector<int>>& decision() const noexcept {
        return decision_;
    }
    /// Others count this rank as lost, or may do so, and go on without it.
    [[nodiscard]] bool left_out() const noexcept { return left_out_; }
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
    /// Ranks that are left and have not told the same list, as far as this rank knows.
    [[nodiscard]] std::vector<int> missing() const;

private:
    [[nodiscard]] std::vector<int> left() const;
    [[nodiscard]] bool may_go_on() const;
    [[nodiscard]] bool over() const noexcept { return decision_ || left_out_; }
    void learn(const std::set<int>& more, const std::set<int>& silent, Instant now);
    void tell(bool decided);
    void decide_if_complete();

    int own_;
    int ranks_;
    Seconds patience_;
    bool active_ = false;
    bool left_out_ = false;
    std::string reason_;
    std::set<int> gone_;
    std::set<int> silent_;               ///< a part of them
    std::map<int, std::set<int>> told_;  ///< by rank: its last list
    Instant learned_;                    ///< the last time that a list grew
    std::vector<Outgoing> outgoing_;
    std::optional<std::vector<int>> decision_;
};

}  // namespace cohort
