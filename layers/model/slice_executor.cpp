// Runs an ExecutionPlan. The numbered steps of one run:
//  1. For each segment: the observer may interrupt; kernels whose first pass is in the segment
//  begin.
//  2. Every team member takes its samples slice by slice through all steps of the segment.
//  3. When all members have finished, kernels add up their per-member sums; parameter gradients
//  that are now final are announced.
#include <algorithm>
#include <map>
#include <span>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/model/executor.hpp"

namespace cohort {
namespace {

/// One team member's position in the batch.
struct Member {
    int index = 0;
    std::int64_t begin = 0;  ///< first sample of the slice
    std::int64_t samples = 0;
    std::byte* region = nullptr;
    std::vector<const float*> inputs;
    std::vector<float*> input_gradients;
};

void read_outputs(ElementType type, const float* from, std::span<float> to) {
    if (type == ElementType::kBf16) {
        widen_bf16(reinterpret_cast<const std::uint16_t*>(from), to);
    } else {
        std::copy_n(from, to.size(), to.begin());
    }
}

class SliceExecutor final : public Executor {
public:
    explicit SliceExecutor(const ExecutorSetting& setting)
        : graph_(setting.graph),
          device_(setting.device),
          compiled_(setting),
          fused_sums_(static_cast<std::size_t>(cpu_team(setting.device).size())),
          times_(setting.graph.nodes().size()) {}

    void bind(const FlatBuffers& buffers) override { bind_kernels(compiled_, buffers); }
    std::optional<BatchResult> run(const RunInput& input, Arena& arena) override {
        ThreadTeam& team = cpu_team(device_);
        team.adopt_caller();  // before primitives are made and measured on this thread
        plan_ = &plan_for(input.batch->size);
        arena.reserve(plan_->arena_bytes);
        input_ = input;
        arena_ = arena.data();
        compiled_.loss->begin();
        fused_sums_.assign(fused_sums_.size(), LossSums{});
        for (const Segment& segment : plan_->segments) {
            if (input.observer != nullptr && input.observer->should_interrupt()) {
                return std::nullopt;
            }
            begin(segment);
            team.run([&](int member) { run_slices(segment, member); });
            end(segment);
        }
        LossSums sums = compiled_.loss->finish();
        for (const LossSums& fused : fused_sums_) {
            sums.loss += fused.loss;
            sums.correct += fused.correct;
        }
        return BatchResult{sums.loss, sums.correct, input.batch->size};
    }

    void set_profiling(bool on) override {
        profiling_ = on;
        if (on) {
            times_.clear();
        }
    }

    void add_profile(std::vector<LayerProfile>& profile) const override {
        times_.add_to(profile);
        for (std::size_t node = 0; compiled_.training && node < profile.size(); ++node) {
            if (compiled_.kernels[node] != nullptr) {
                profile[node].implementations = compiled_.kernels[node]->implementations();
            }
        }
    }

private:
    ExecutionPlan& plan_for(std::int64_t batch) {
        const auto found = plans_.find(batch);
        if (found != plans_.end()) {
            return found->second;
        }
        // Measured on ResNet-20 and VGG-16: below some four times the second-level cache the cost
        // per call and Winograd's weight transform outweigh what locality saves.
        const std::size_t cache = 4 * cpu_l2_bytes();
        return plans_
            .emplace(batch, plan_execution(compiled_, batch, cpu_team(device_).size(), cache))
            .first->second;
    }

    void begin(const Segment& segment) {
        for (const PlannedStep& planned : segment.steps) {
            const Step& step = planned.step;
            if (step.pass != 0 || step.kind == StepKind::kLoss) {
                continue;
            }
            const auto node = static_cast<std::size_t>(step.node);
            timed(step, true, [&] {
                if (step.kind == StepKind::kForward) {
                    compiled_.kernels[node]->begin_forward(arena_ + plan_->forward_shared[node]);
                } else {
                    compiled_.kernels[node]->begin_backward(arena_ + plan_->backward_shared[node]);
                }
            });
        }
    }

    void run_slices(const Segment& segment, int member_index) {
        Member member;
        member.index = member_index;
        member.region = arena_ + plan_->member_base +
                        plan_->member_bytes * static_cast<std::size_t>(member_index);
        const std::int64_t first = member_index * plan_->member_samples;
        const std::int64_t end = std::min(first + plan_->member_samples, plan_->batch);
        for (member.begin = first; member.begin < end; member.begin += segment.slice) {
            member.samples = std::min(segment.slice, end - member.begin);
            for (const PlannedStep& planned : segment.steps) {
                timed(planned.step, member_index == 0, [&] { run_step(planned, member); });
            }
        }
    }

    void run_step(const PlannedStep& planned, Member& member) {
        if (planned.step.kind == StepKind::kLoss) {
            run_loss(member);
            return;
        }
        run_kernel(planned, member);
        const auto add = [&](int value, const float* from) {
            const auto to = static_cast<std::size_t>(value);
            const TensorFormat& format = compiled_.formats[to];
            add_into(format.type, address(plan_->gradients[to], member), from,
                     format.sample_floats() * member.samples);
        };
        for (const GradientWrite& write : planned.writes) {
            if (write.needs_scratch()) {
                add(write.value, address(write.scratch, member));
            }
        }
        for (const GradientAddition& addition : planned.additions) {
            add(addition.to_value,
                address(plan_->gradients[static_cast<std::size_t>(addition.from_value)], member));
        }
    }

    void run_kernel(const PlannedStep& planned, Member& member) {
        const Step& step = planned.step;
        const auto index = static_cast<std::size_t>(step.node);
        const Graph::Node& node = graph_.nodes()[index];
        Kernel& kernel = *compiled_.kernels[index];
        if (kernel.traits().is_view) {
            return;
        }
        member.inputs.clear();
        for (const int input : node.inputs) {
            member.inputs.push_back(
                address(plan_->activations[static_cast<std::size_t>(input)], member));
        }
        const auto output = static_cast<std::size_t>(node.output);
        const BatchView& batch = *input_.batch;
        KernelSlice slice{
            .samples = member.samples,
            .member = member.index,
            .inputs = member.inputs,
            .output = address(plan_->activations[output], member),
            .saved = reinterpret_cast<std::byte*>(address(plan_->saved[index], member)),
            .scratch = member.region + plan_->scratch_offset,
            .sample_ids = batch.sample_ids == nullptr ? nullptr : batch.sample_ids + member.begin,
            .seed = input_.seed,
            .epoch = batch.epoch};
        if (step.kind == StepKind::kForward) {
            slice.shared = arena_ + plan_->forward_shared[index];
            kernel.forward(step.pass, slice);
            return;
        }
        slice.shared = arena_ + plan_->backward_shared[index];
        slice.output_gradient = address(plan_->gradients[output], member);
        member.input_gradients.assign(node.inputs.size(), nullptr);
        for (const GradientWrite& write : planned.writes) {
            member.input_gradients[static_cast<std::size_t>(write.input)] = address(
                write.needs_scratch() ? write.scratch
                                      : plan_->gradients[static_cast<std::size_t>(write.value)],
                member);
        }
        slice.input_gradients = member.input_gradients;
        if (step.node != compiled_.fused_node) {
            kernel.backward(step.pass, slice);
            return;
        }
        const LossSums sums = kernel.backward_with_loss(slice, loss_slice(member), *compiled_.loss);
        LossSums& total = fused_sums_[static_cast<std::size_t>(member.index)];
        total.loss += sums.loss;
        total.correct += sums.correct;
    }

    /// Labels or targets, without outputs and their gradient.
    [[nodiscard]] LossSlice loss_slice(const Member& member) const {
        const BatchView& batch = *input_.batch;
        const std::int64_t labels = member.begin * graph_.positions();
        const std::int64_t targets = member.begin * graph_.outputs();
        return {.samples = member.samples,
                .member = member.index,
                .labels = batch.labels == nullptr ? nullptr : batch.labels + labels,
                .targets = batch.targets == nullptr ? nullptr : batch.targets + targets,
                .scale = 1.0F / static_cast<float>(plan_->batch)};
    }

    void run_loss(Member& member) {
        const auto logits = static_cast<std::size_t>(graph_.logits().index);
        const float* values = address(plan_->activations[logits], member);
        const std::int64_t outputs = graph_.outputs();
        if (input_.logits != nullptr) {
            read_outputs(compiled_.formats[logits].type, values,
                         {input_.logits + member.begin * outputs,
                          static_cast<std::size_t>(member.samples * outputs)});
            return;
        }
        LossSlice slice = loss_slice(member);
        slice.logits = values;
        slice.gradient = address(plan_->gradients[logits], member);
        compiled_.loss->run(slice);
    }

    void end(const Segment& segment) {
        for (const PlannedStep& planned : segment.steps) {
            const Step& step = planned.step;
            if (step.kind == StepKind::kLoss) {
                continue;
            }
            const auto node = static_cast<std::size_t>(step.node);
            Kernel& kernel = *compiled_.kernels[node];
            timed(step, true, [&] {
                if (step.kind == StepKind::kForward) {
                    kernel.end_forward(step.pass, plan_->batch,
                                       arena_ + plan_->forward_shared[node]);
                } else {
                    kernel.end_backward(step.pass, plan_->batch,
                                        arena_ + plan_->backward_shared[node]);
                }
            });
            if (input_.observer != nullptr && step.kind == StepKind::kBackward && step.last_pass) {
                announce_gradients(graph_, step.node, *input_.observer);
            }
        }
    }

    [[nodiscard]] float* address(const Place& place, const Member& member) const {
        const std::size_t before = place.sample_bytes * static_cast<std::size_t>(member.begin);
        switch (place.kind) {
            case Place::Kind::kInput:
                // Inputs are never written: kernels take them through const pointers.
                return const_cast<float*>(input_of(graph_, *input_.batch)) + before / sizeof(float);
            case Place::Kind::kBatch:
                return reinterpret_cast<float*>(arena_ + place.offset + before);
            case Place::Kind::kSlice: return reinterpret_cast<float*>(member.region + place.offset);
            case Place::Kind::kNone: break;
        }
        return nullptr;
    }

    template <class F>
    void timed(const Step& step, bool count, F&& f) {
        if (!profiling_ || !count || step.kind == StepKind::kLoss) {
            f();
            return;
        }
        const Clock::Seconds start = profile_clock_.now();
        f();
        times_.add(step, (profile_clock_.now() - start).count());
    }

    const Graph& graph_;
    Device& device_;
    CompiledGraph compiled_;
    std::vector<LossSums> fused_sums_;  ///< per member: of a loss that a kernel includes
    std::map<std::int64_t, ExecutionPlan> plans_;
    bool profiling_ = false;
    ThreadCpuClock profile_clock_;  ///< what other processes take does not count
    LayerTimes times_;

    // The run in progress.
    const ExecutionPlan* plan_ = nullptr;
    RunInput input_;
    std::byte* arena_ = nullptr;
};

}  // namespace

std::unique_ptr<Executor> make_slice_executor(const ExecutorSetting& setting) {
    return std::make_unique<SliceExecutor>(setting);
}

}  // namespace cohort
