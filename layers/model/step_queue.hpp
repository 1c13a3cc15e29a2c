#pragma once

#include <cstddef>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/profiler_range.hpp"
#include "layers/model/batch_staging.hpp"
#include "layers/model/executor.hpp"
#include "layers/model/whole_batch_plan.hpp"

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
    void start(const WholeBatchPlan& plan, const RunInput& input, std::byte* arena) {
        check_invariant(!plan.reads_ids || input.batch->sample_ids != nullptr,
                        "a network that draws needs sample ids");
        plan_ = &plan;
        input_ = input;
        arena_ = arena;
    }

    /// What the run reads of a batch.
    [[nodiscard]] std::vector<BatchPart> parts() const {
        return parts_of(graph_, *input_.batch, input_.logits == nullptr, plan_->reads_ids);
    }
    /// Copies the parts of the batch to their places in the plan.
    void upload(const std::vector<BatchPart>& parts) {
        for (const BatchPart& part : parts) {
            const bool as_kernels_read_it =
                part.place == &WholeBatchPlan::samples && !converts_input();
            void* place =
                as_kernels_read_it ? static_cast<void*>(at(activation(0))) : at(plan_->*part.place);
            stream_.copy(place, part.from, part.bytes);
        }
    }

    /// Before the first step: copies of weights, the input in the kernels' format, the loss's sums.
    void arrive() {
        if (support_ != nullptr) {
            support_->refresh_weights();
        }
        const StoredSamples& stored = input_.batch->stored;
        if (stored.values != nullptr) {
            support_->load_stored(
                compiled_.formats[0],
                {.values = reinterpret_cast<const std::uint8_t*>(at(plan_->samples)),
                 .crops = reinterpret_cast<const ImageCrop*>(at(plan_->crops)),
                 .scales = reinterpret_cast<const float*>(at(plan_->scales)),
                 .channels = stored.channels},
                at(activation(0)), plan_->batch);
        } else if (converts_input()) {
            support_->load_input(compiled_.formats[0],
                                 reinterpret_cast<const float*>(at(plan_->samples)),
                                 at(activation(0)), plan_->batch);
        }
        if (input_.logits == nullptr) {
            compiled_.loss->begin();
        }
    }

    void run(const PlannedStep& planned) {
        const Step& step = planned.step;
        if (step.kind == StepKind::kLoss) {
            if (input_.logits == nullptr) {
                run_loss();
            }
            return;
        }
        const auto index = static_cast<std::size_t>(step.node);
        const ProfilerRange range(graph_.nodes()[index].name.c_str());
        Kernel& kernel = *compiled_.kernels[index];
        if (kernel.traits().is_view) {
            run_additions(planned);
        } else if (step.kind == StepKind::kForward) {
            std::byte* shared = at(plan_->forward_shared[index]);
            if (step.pass == 0) {
                kernel.begin_forward(shared);
            }
            run_kernel(planned);
            kernel.end_forward(step.pass, plan_->batch, shared);
        } else {
            std::byte* shared = at(plan_->backward_shared[index]);
            if (step.pass == 0) {
                kernel.begin_backward(shared);
            }
            run_kernel(planned);
            run_additions(planned);
            kernel.end_backward(step.pass, plan_->batch, shared);
        }
    }

    /// After the last step of a run without a loss: outputs in single precision.
    void read_outputs() {
        if (support_ != nullptr) {
            const int logits = graph_.logits().index;
            support_->read_output(compiled_.formats[static_cast<std::size_t>(logits)],
                                  at(activation(logits)),
                                  reinterpret_cast<float*>(at(plan_->outputs)), plan_->batch);
        }
    }

    /// The outputs in device memory: [N, outputs], single precision.
    [[nodiscard]] const void* outputs() const {
        return support_ == nullptr ? static_cast<const void*>(at(activation(graph_.logits().index)))
                                   : at(plan_->outputs);
    }

private:
    /// Tokens arrive as kernels read them.
    [[nodiscard]] bool converts_input() const {
        return support_ != nullptr && !graph_.reads_tokens();
    }

    void run_kernel(const PlannedStep& planned) {
        const Step& step = planned.step;
        const auto index = static_cast<std::size_t>(step.node);
        const Graph::Node& node = graph_.nodes()[index];
        const BatchView& batch = *input_.batch;
        inputs_.clear();
        for (const int input : node.inputs) {
            inputs_.push_back(at(activation(input)));
        }
        KernelSlice slice{.samples = plan_->batch,
                          .inputs = inputs_,
                          .output = at(activation(node.output)),
                          .saved = reinterpret_cast<std::byte*>(at(plan_->saved[index])),
                          .sample_ids = plan_->reads_ids
                                            ? reinterpret_cast<const std::int64_t*>(at(plan_->ids))
                                            : nullptr,
                          .seed = input_.seed,
                          .epoch = batch.epoch};
        if (step.kind == StepKind::kForward) {
            slice.scratch = at(plan_->forward_scratch[index]);
            slice.shared = at(plan_->forward_shared[index]);
            compiled_.kernels[index]->forward(step.pass, slice);
            return;
        }
        slice.scratch = at(plan_->backward_scratch[index]);
        slice.shared = at(plan_->backward_shared[index]);
        slice.output_gradient = at(gradient(node.output));
        input_gradients_.assign(node.inputs.size(), nullptr);
        for (const GradientWrite& write : planned.writes) {
            input_gradients_[static_cast<std::size_t>(write.input)] =
                at(write.needs_scratch() ? write.scratch : gradient(write.value));
        }
        slice.input_gradients = input_gradients_;
        Kernel& kernel = *compiled_.kernels[index];
        if (step.node == compiled_.fused_node) {
            static_cast<void>(kernel.backward_with_loss(slice, labels(), *compiled_.loss));
        } else {
            kernel.backward(step.pass, slice);
        }
    }

    void run_additions(const PlannedStep& planned) {
        for (const GradientWrite& write : planned.writes) {
            if (write.needs_scratch()) {
                run_addition(write.value, gradient(write.value), write.scratch);
            }
        }
        for (const GradientAddition& addition : planned.additions) {
            run_addition(addition.to_value, gradient(addition.to_value),
                         gradient(addition.from_value));
        }
    }

    void run_addition(int value, const Place& to, const Place& from) {
        const TensorFormat& format = compiled_.formats[static_cast<std::size_t>(value)];
        const std::int64_t count = format.sample_floats() * plan_->batch;
        if (support_ != nullptr) {
            support_->add_into(format.type, at(to), at(from), count);
        } else {
            add_into(format.type, at(to), at(from), count);
        }
    }

    void run_loss() {
        const int logits = graph_.logits().index;
        LossSlice slice = labels();
        slice.logits = at(activation(logits));
        slice.gradient = at(gradient(logits));
        compiled_.loss->run(slice);
    }

    /// Labels or targets, without outputs and their gradient.
    [[nodiscard]] LossSlice labels() const {
        const bool classes = graph_.loss() == LossKind::kSoftmaxCrossEntropy;
        return {
            .samples = plan_->batch,
            .labels = classes ? reinterpret_cast<const std::int32_t*>(at(plan_->labels)) : nullptr,
            .targets = classes ? nullptr : reinterpret_cast<const float*>(at(plan_->targets)),
            .scale = 1.0F / static_cast<float>(plan_->batch)};
    }

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
