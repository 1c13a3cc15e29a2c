#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "cohort/train/events.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// When to evaluate, and the evaluations that are under way: their parts come back one by one from
/// those who do them. Pure. Of those that training waits for, one may start while parts of the one
/// before are still on their way: when an evaluation is due depends on no message's delay.
class EvaluationTracker {
public:
    /// @param every samples between evaluations  @param evaluated_at samples at the last one
    EvaluationTracker(std::int64_t every, std::int64_t evaluated_at);

    /// True when an evaluation belongs between the last one started and `samples`, and none is
    /// beside training or waits for its snapshot.
    [[nodiscard]] bool due(std::int64_t samples) const;
    [[nodiscard]] bool running() const noexcept { return !running_.empty(); }
    /// The evaluation with this number is.
    [[nodiscard]] bool running(std::uint64_t id) const;
    /// Reserves the next number: from now on it is running.
    [[nodiscard]] std::uint64_t start();
    /// The snapshot for the newest one exists: where the run stands, and how many parts to expect.
    /// @param pauses whether training waits for it
    void taken(const TrainProgress& progress, std::int64_t samples, int parts, bool pauses);
    /// Books a part; the report when it was the last one. Parts of evaluations that are not running
    /// are ignored. A part may come before taken(): messages of two ranks overtake one another.
    [[nodiscard]] std::optional<EvaluationReport> part(const EvaluatedPart& part);
    /// Forgets what is running: the run ends without it.
    void abandon() { running_.clear(); }
    /// Forgets what training waits for, because somebody who owes a part of it is lost: it is due
    /// again.
    void give_up();
    /// One is running, and training waits for it.
    [[nodiscard]] bool pausing() const noexcept;
    /// Parts that have not come back, of the oldest that training waits for.
    [[nodiscard]] std::vector<int> missing() const;

private:
    struct Running {
        std::uint64_t id = 0;
        bool taken = false;
        bool pauses = true;               ///< as far as is known
        std::int64_t started_before = 0;  ///< samples, of the one before
        std::vector<std::optional<EvaluatedPart>> parts;
        EvaluationReport report;

        [[nodiscard]] std::vector<int> missing() const;
        [[nodiscard]] EvaluationReport finished();
    };

    std::int64_t every_;
    std::int64_t started_at_;
    std::uint64_t last_id_ = 0;
    std::deque<Running> running_;  ///< in order of their start
};

}  // namespace cohort
