#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "cohort/comm/membership.hpp"
#include "comm/world/agreement.hpp"
#include "comm/world/job_end.hpp"
#include "comm/world/progress_loop.hpp"
#include "comm/world/succession/succession_control.hpp"

namespace cohort {

/// Who belongs to the job. Rank 0 learns of a lost worker by itself or from a rank of its host,
/// tells its watcher, and spreads what that decides; every rank then abandons what it had in flight
/// with the excluded one. The job cannot go on without a server or rank 0: their loss ends it, or
/// the World only (SuccessionControl).
class MembershipControl final : public Membership {
public:
    MembershipControl(Network& network, CommandQueue& commands, ProgressLoop& progress,
                      CutOff& cut_off, JobEnd& job_end, Agreement& agreement,
                      SuccessionControl& succession)
        : network_(network),
          commands_(commands),
          progress_(progress),
          cut_off_(cut_off),
          job_end_(job_end),
          agreement_(agreement),
          succession_(succession) {}

    [[nodiscard]] bool excluded(int rank) const override { return network_.members.excluded(rank); }
    [[nodiscard]] std::uint64_t epoch() const override { return network_.members.epoch(); }
    void watch(std::function<void(const RankEvent&)> watcher) override;
    void exclude(int rank) override;
    void admit(int rank) override;

    /// The job is about to end: from now on lost workers are excluded without a word to the
    /// watcher. Thread safe.
    void end_watch();
    /// As far as it is known on this rank: whether the job goes on without a worker is rank 0's
    /// decision. Thread safe.
    [[nodiscard]] bool ends_the_job(int rank) const;

    // On the communication thread:
    /// Rank 0 has told the excluded ranks.
    void apply(const MembershipState& state);
    /// Another rank has found a loss.
    void suspect(const PeerWatch::Loss& loss);
    /// An excluded rank has answered a probe.
    void answered(int rank, std::uint32_t epoch);
    /// Looks for losses; to be called often.
    void look_after(Instant now);

private:
    void lost(PeerWatch::Loss loss);
    void tell_watcher(const RankEvent& event);
    void change(int rank, bool exclude);
    void tell(const MembershipState& state, int changed);
    void changed();

    Network& network_;
    CommandQueue& commands_;
    ProgressLoop& progress_;
    CutOff& cut_off_;
    JobEnd& job_end_;
    Agreement& agreement_;
    SuccessionControl& succession_;
    std::vector<std::uint64_t> abandoned_at_;  ///< by rank, an epoch; communication thread only
    mutable std::mutex mutex_;
    std::function<void(const RankEvent&)> watcher_;  ///< under the mutex
    std::atomic<bool> excludes_by_itself_{false};  ///< rank 0: no watcher any more, or end_watch()
};

}  // namespace cohort
