#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/coordinator/checkpoint/checkpoint_attempt.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

/// When to take mirrors, checkpoints in the memory of the ranks, and the one that is under way. The
/// steps are those of CheckpointCoordinator, but for the last: all ranks are told that the mirror
/// is complete. One that fails is taken again when the next one is due.
class MirrorCoordinator {
public:
    /// @param every_s  between mirrors; 0: there are none; below 0: so long that they cost a
    /// hundredth of the time  @param parts  shards of a mirror
    MirrorCoordinator(CommContext comm, double every_s, int parts)
        : comm_(comm), every_s_(every_s), parts_(parts) {}

    [[nodiscard]] bool due(Clock::Seconds now) const;
    /// @return its name, in place of a checkpoint's path
    [[nodiscard]] std::string start(Clock::Seconds now);
    /// start() gave this name out, and captured() has not been called since.
    [[nodiscard]] bool awaits(const std::string& name) const {
        return attempt_ && !attempt_->snapshot && name == attempt_->path;
    }
    void captured(RunSnapshot snapshot);
    void saved(const SavedPart& part);
    /// Forgets one that was started and not captured: what should have carried it is lost.
    void give_up();

private:
    void complete();

    CommContext comm_;
    double every_s_;
    int parts_;
    std::uint64_t number_ = 0;
    std::optional<CheckpointAttempt> attempt_;
    std::optional<Clock::Seconds> last_at_;  ///< start of the last one
    double cost_s_ = 0;                      ///< of the last one: pause and sending
};

}  // namespace cohort
