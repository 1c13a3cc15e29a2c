#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cohort/model/replica.hpp"
#include "execution_plan.hpp"

namespace cohort {

/// Memory for activations, grown to the largest plan that has run.
struct Arena {
    Buffer buffer;
    void reserve(Device& device, std::size_t bytes);
};

/// What one run works on.
struct RunInput {
    const BatchView* batch = nullptr;
    std::uint64_t seed = 0;
    StepObserver* observer = nullptr;  ///< may be nullptr
    float* logits = nullptr;  ///< [N, outputs] to copy what comes out to; then there is no loss
};

/// Runs one compiled form of a network over batches of any size, slice by slice.
class Executor {
public:
    Executor(const Graph& graph, Device& device, Stream& stream, bool training, bool deterministic,
             TuningCache* tuning);

    /// Gives every kernel its slices of the flat buffers.
    void bind(float* parameters, float* gradients, float* state, float* batch_state);

    /// Forward, loss and (in training form) backward. nullopt: interrupted by the observer.
    std::optional<BatchResult> run(const RunInput& input, Arena& arena);

    void set_profiling(bool on);
    /// Adds this executor's times to `profile`, one entry per node.
    void add_profile(std::vector<LayerProfile>& profile) const;

private:
    struct NodeTime {
        double forward_s = 0;
        double backward_s = 0;
    };
    struct Member;

    ExecutionPlan& plan_for(std::int64_t batch);
    void begin(const Segment& segment);
    void run_slices(const Segment& segment, int member);
    void run_step(const PlannedStep& planned, Member& member);
    void run_kernel(const PlannedStep& planned, Member& member);
    void run_loss(Member& member);
    void end(const Segment& segment);
    void announce_gradients(const Graph::Node& node);
    [[nodiscard]] float* address(const Place& place, const Member& member) const;
    template <class F>
    void timed(const Step& step, bool count, F&& f);

    const Graph& graph_;
    Device& device_;
    CompiledGraph compiled_;
    std::map<std::int64_t, ExecutionPlan> plans_;
    bool profiling_ = false;
    std::vector<NodeTime> times_;

    // The run in progress.
    const ExecutionPlan* plan_ = nullptr;
    RunInput input_;
    std::byte* arena_ = nullptr;
};

}  // namespace cohort
