#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/model/trainable_model.hpp"

namespace cohort {

class OfferedModel;

/// A step that the program's loop is to compute.
struct OfferedStep {
    OfferedModel* model = nullptr;  ///< whose parameters are to be used
    bool trains = true;             ///< false: a forward pass for an evaluation
    std::vector<std::int64_t> ids;  ///< samples
    std::uint32_t epoch = 0;
};

/// Where threads of the job hand steps to the thread that runs the program's loop. A step goes its
/// way in numbered moves; a thread that waits sleeps:
///  1. compute() puts the step into the queue and waits; next() takes it out.
///  2. announce() says that a range of the gradient is final and waits; compute() passes it on, on
///     its own thread, and lets the program go on. So what slows the job's thread slows the step.
///  3. finish() says what the step came to; compute() returns it.
class StepExchange {
public:
    // The job's threads:
    /// Nothing when the observer interrupts the step: what the program makes of it is not used.
    /// A step that is offered after leave(), or that the program has not begun at close(), computes
    /// no samples: its loss is not finite, and the gradient is left as it was.
    [[nodiscard]] std::optional<BatchResult> compute(OfferedStep step, StepObserver& observer);
    /// There will be no more steps; those in the queue are given back.
    void close();

    // The program's thread, and threads of its backward pass:
    /// The next step, which then is the current one; null after close(), or when `limit` is over.
    [[nodiscard]] const OfferedStep* next(Clock::Seconds limit);
    [[nodiscard]] bool closed() const;
    /// [begin, end) of the current step's gradient, in floats, is final.
    void announce(std::int64_t begin, std::int64_t end);
    /// What the current step came to.
    void finish(const BatchResult& result);
    /// The program has left its loop: steps are given back without having been computed.
    void leave();

private:
    struct Entry {
        OfferedStep step;
        std::optional<std::pair<std::int64_t, std::int64_t>> announced;
        std::optional<BatchResult> result;
        bool withdrawn = false;  ///< the thread that offered the step has stopped waiting
    };

    void withdraw(const std::shared_ptr<Entry>& entry);

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Entry>> queue_;
    std::shared_ptr<Entry> current_;
    bool closed_ = false;
    bool left_ = false;
};

/// The program's network as the job sees it: steps are offered to the program's loop.
class OfferedModel final : public TrainableModel {
public:
    /// @param exchange outlives it  @param number  tells a rank's models apart: 0 is a worker's own
    OfferedModel(Graph graph, Device& device, StepExchange& exchange, int number);

    [[nodiscard]] int number() const noexcept { return number_; }

    std::optional<BatchResult> train_step(const BatchView& batch, std::uint64_t seed,
                                          StepObserver& observer) override;
    BatchResult evaluate(const BatchView& batch) override;

    /// What the program's buffers are views of, layout of state(): state() when a step begins, what
    /// the forward pass has made of it afterwards. Its batch statistics are those with which
    /// fold_batch_statistics() comes to the same.
    [[nodiscard]] std::span<float> live_state() noexcept { return live_state_; }

private:
    [[nodiscard]] OfferedStep offer(const BatchView& batch, bool trains);

    StepExchange& exchange_;
    int number_;
    std::vector<float> live_state_;
};

}  // namespace cohort
