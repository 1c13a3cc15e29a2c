#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/chooser.hpp"

namespace cohort {

/// Where a run stands when a decision is made, or judged.
struct RunMoment {
    double seconds = 0;  ///< of training
    std::int64_t samples = 0;
    double loss = 0;  ///< of training, nats, smoothed; 0: not known
};

/// Decisions of a run: each is complete once the next one, or the end, tells what came of it. Pure.
class DecisionLog {
public:
    /// A decision. @param from, to  what was and what will be in force
    void made(DecisionRecord record, const RunMoment& now, std::string from, std::string to);
    /// How long it took, of the newest.
    void took(double seconds);
    /// What follows is no longer its outcome: another one decides, or the run ends.
    void closed(const RunMoment& now);
    /// Complete ones since the last call.
    [[nodiscard]] std::vector<DecisionRecord> take();

private:
    std::optional<DecisionRecord> open_;
    double loss_ = 0;  ///< then
    std::vector<DecisionRecord> complete_;
};

}  // namespace cohort
