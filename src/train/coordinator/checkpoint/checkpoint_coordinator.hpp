#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"
#include "train/coordinator/checkpoint/checkpoint_attempt.hpp"

namespace cohort {

/// When to write checkpoints, and the one that is under way. Steps: start() names the manifest and
/// the owners of the shards write theirs beside it; captured() takes what the manifest
/// will say; saved() notes each shard; when all are there the manifest is written in the
/// background, which makes the checkpoint valid. One at a time; a failure is reported, training
/// goes on, and it is tried again after a while.
class CheckpointCoordinator {
public:
    /// @param parts shards of a checkpoint
    CheckpointCoordinator(const TrainOptions& options, std::string folder, int parts,
                          Hdf5Thread& thread);
    ~CheckpointCoordinator() = default;  // waits for a manifest that is being written

    /// Where the run begins: nothing is due before something was trained.
    void begin(std::int64_t samples, Clock::Seconds now);
    [[nodiscard]] bool due(std::int64_t samples, Clock::Seconds now) const;
    [[nodiscard]] bool running() const noexcept { return attempt_.has_value(); }
    /// @return the path of the manifest
    [[nodiscard]] std::string start(std::int64_t samples);
    /// start() gave this path out, and captured() has not been called since.
    [[nodiscard]] bool awaits(const std::string& path) const {
        return attempt_ && !attempt_->snapshot && !writing_.valid() && path == attempt_->path;
    }
    void captured(RunSnapshot snapshot, Clock::Seconds now);
    void saved(const SavedPart& part);
    /// Forgets one that was started and not captured: what should have carried it is lost.
    void give_up();
    /// A checkpoint that has ended, well or not.
    [[nodiscard]] std::optional<CheckpointReport> collect(Clock::Seconds now);
    /// Whether the end of a run at `samples` wants one.
    [[nodiscard]] bool wanted_at_end(StopReason reason, std::int64_t samples) const;
    /// Shards that have not been reported.
    [[nodiscard]] std::vector<int> missing() const {
        return attempt_ ? attempt_->missing() : std::vector<int>();
    }

private:
    /// Between checkpoints, by time; 0: none are due by time.
    [[nodiscard]] double period_s() const;
    [[nodiscard]] CheckpointReport finish(CheckpointReport report, Clock::Seconds now);

    const TrainOptions& options_;
    std::string folder_;
    int parts_;
    Hdf5Thread& thread_;

    std::optional<CheckpointAttempt> attempt_;  ///< the checkpoint under way
    std::int64_t saved_at_ = 0;                 ///< samples applied in the last good checkpoint
    Clock::Seconds last_time_{0};               ///< of its capture
    double cost_s_ = 0;                         ///< of the last one: pause and writing
    std::optional<Clock::Seconds> retry_at_;    ///< after a failure of the last one
    bool saved_once_ = false;                   ///< one of this run succeeded
    std::future<CheckpointReport> writing_;     ///< last member: waits before the others go
};

}  // namespace cohort
