#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/train/events.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// When to evaluate, and the evaluation that is under way: its parts come back one by one from
/// those who do them. Pure; one evaluation at a time.
class EvaluationTracker {
public:
    /// @param every samples between evaluations  @param evaluated_at samples at the last one
    EvaluationTracker(std::int64_t every, std::int64_t evaluated_at);

    /// True when an evaluation belongs between the last one started and `samples`, and none runs.
    [[nodiscard]] bool due(std::int64_t samples) const;
    [[nodiscard]] bool running() const noexcept { return running_; }
    /// Reserves the next number: from now on one is running.
    [[nodiscard]] std::uint64_t start();
    /// The snapshot exists: where the run stands, and how many parts to expect.
    /// @param pauses whether training waits for it
    void taken(const TrainProgress& progress, std::int64_t samples, int parts, bool pauses);
    /// Books a part; the report when it was the last one. Parts of other evaluations are ignored.
    /// A part may come before taken(): messages of two ranks overtake one another.
    [[nodiscard]] std::optional<EvaluationReport> part(const EvaluatedPart& part);
    /// Forgets the one that is running: the run ends without it.
    void abandon();
    /// Forgets the one that is running, because somebody who owes a part of it is lost: it is due
    /// again.
    void give_up();
    /// One is running, and training waits for it.
    [[nodiscard]] bool pausing() const noexcept { return running_ && (!taken_ || pauses_); }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    /// Parts that have not come back.
    [[nodiscard]] std::vector<int> missing() const;

private:
    std::int64_t every_;
    std::int64_t started_at_;
    std::int64_t started_before_;  ///< the one before that
    std::uint64_t id_ = 0;
    bool running_ = false;
    bool taken_ = false;  ///< the one that is running
    bool pauses_ = false;
    std::vector<std::optional<EvaluatedPart>> parts_;
    EvaluationReport report_;
};

}  // namespace cohort
