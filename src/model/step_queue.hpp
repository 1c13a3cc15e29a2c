#pragma once

#include <cstddef>
#include <vector>

#include "model/executor.hpp"
#include "model/whole_batch_plan.hpp"

namespace cohort {

/// Queues the work of a run of a whole batch on its stream: copies, kernels, loss and support, in
/// the order of a plan. All but upload() can be recorded.
class StepQueue {
public:
    /// All arguments must outlive the queue. @param support  may be null
    StepQueue(CompiledGraph& compiled, Stream& stream, KernelSupport* support)
        : compiled_(compiled), graph_(compiled.graph), stream_(stream), support_(support) {}

    /// Sets plan and input of the following calls; the plan and the memory behind `input` must stay
    /// valid until the next call. A plan that reads ids needs a batch with ids: its recorded steps
    /// read them. @param arena  origin of the plan's offsets
    void start(const WholeBatchPlan& plan, const RunInput& input, std::byte* arena);

    /// Copies the batch to its place in the plan.
    void upload();
    /// Before the first step: copies of weights, the input in the kernels' format, the loss's sums.
    void arrive();
    void run(const PlannedStep& planned);
    /// After the last step of a run without a loss: outputs in single precision.
    void read_outputs();
    /// The outputs in device memory: [N, outputs], single precision.
    [[nodiscard]] const void* outputs() const;

private:
    void run_kernel(const PlannedStep& planned);
    void run_additions(const PlannedStep& planned);
    void run_addition(int value, const Place& to, const Place& from);
    void run_loss();

    [[nodiscard]] std::byte* at(std::size_t offset) const { return arena_ + offset; }
    [[nodiscard]] float* at(const Place& place) const {
        return place.kind == Place::Kind::kNone ? nullptr
                                                : reinterpret_cast<float*>(at(place.offset));
    }
    [[nodiscard]] const Place& activation(int value) const {
        return plan_->activations[static_cast<std::size_t>(value)];
    }
    [[nodiscard]] const Place& gradient(int value) const {
        return plan_->gradients[static_cast<std::size_t>(value)];
    }

    CompiledGraph& compiled_;
    const Graph& graph_;
    Stream& stream_;
    KernelSupport* support_;
    const WholeBatchPlan* plan_ = nullptr;
    RunInput input_;
    std::byte* arena_ = nullptr;
    std::vector<const float*> inputs_;
    std::vector<float*> input_gradients_;
};

}  // namespace cohort
