#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "train/protocol/protocol.hpp"
#include "train/protocol/share_limit.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

/// What became of a submitted snapshot.
struct SnapshotEvaluation {
    EvaluatedPart part;        ///< part 0 of 1: the sums over the whole test group
    std::exception_ptr error;  ///< none: evaluated
};

/// Evaluates snapshots on the test group beside training that does not wait: on a thread of the
/// low priority (niceness 5, its loader's threads too), with a CPU replica of its own, on at
/// most `share` of a core (what its loader spends on one batch at a time comes on top). Snapshots
/// are evaluated in the order of submission, one at a time, at most one waits.
class SnapshotEvaluator {
public:
    using Done = std::function<void(const SnapshotEvaluation&)>;

    /// Starts the thread; replica and loader are made on it with the first snapshot.
    /// @param parts must outlive it  @param share see ShareLimit
    /// @param done  called on the evaluator's thread once per accepted snapshot, unless the
    ///              evaluator is destroyed first; must not throw
    /// Errors: UsageError for the share, DeviceError when the system refuses a thread.
    SnapshotEvaluator(const JobContext& parts, double share, Done done);
    SnapshotEvaluator(const SnapshotEvaluator&) = delete;
    SnapshotEvaluator& operator=(const SnapshotEvaluator&) = delete;
    /// Abandons what is being evaluated or waits; returns after the batch in work.
    ~SnapshotEvaluator();

    /// Queues a snapshot; false, and nothing happens, while another one waits. Never blocks.
    /// @param parameters [graph.parameters().total()]  @param state [graph.state().total()]
    /// Errors: ShapeError for other sizes. Thread safe, as all members.
    [[nodiscard]] bool submit(std::uint64_t id, std::vector<float> parameters,
                              std::vector<float> state);
    /// True when submit would be accepted.
    [[nodiscard]] bool has_room() const;
    /// Nothing is being evaluated and nothing waits.
    [[nodiscard]] bool idle() const;
    /// Training is over: what is left is evaluated without pauses.
    void lift_share();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cohort
