// From a graph to the order of kernel calls:
//  1. list the calls: forward, loss, backward in reverse, one per pass;
//  2. decide for every gradient contribution whether it assigns, adds or shares memory;
//  3. for slices, cut the list into segments: where a pass needs the whole batch, where slice sizes
//     differ, after the loss, and in backward often enough to announce gradients early.
#include "layers/model/execution_plan.hpp"

#include <algorithm>
#include <numeric>

namespace cohort {
namespace {

/// Merges values that share memory.
class StorageSets {
public:
    explicit StorageSets(int count) : parent_(static_cast<std::size_t>(count)) {
        std::iota(parent_.begin(), parent_.end(), 0);
    }
    [[nodiscard]] int find(int value) const {
        while (parent_[static_cast<std::size_t>(value)] != value) {
            value = parent_[static_cast<std::size_t>(value)];
        }
        return value;
    }
    void merge(int into, int value) { parent_[static_cast<std::size_t>(find(value))] = find(into); }

    /// The representative of every value.
    [[nodiscard]] std::vector<int> all() const {
        std::vector<int> roots;
        for (int value = 0; value < static_cast<int>(parent_.size()); ++value) {
            roots.push_back(find(value));
        }
        return roots;
    }

private:
    std::vector<int> parent_;
};

class Orderer {
public:
    Orderer(const CompiledGraph& compiled, std::int64_t member_samples, std::size_t cache_bytes)
        : compiled_(compiled),
          nodes_(compiled.graph.nodes()),
          member_samples_(member_samples),
          cache_bytes_(cache_bytes),
          activations_(compiled.graph.values()),
          gradients_(compiled.graph.values()) {}

    ExecutionOrder run_cut() {
        list();
        cut_segments();
        return take();
    }
    ExecutionOrder run_whole() {
        list();
        segments_.push_back({std::move(steps_), member_samples_});
        return take();
    }

private:
    void list() {
        list_forward();
        if (compiled_.fused_node < 0) {
            steps_.push_back({{StepKind::kLoss, -1, 0, true}, {}, {}});
        }
        if (compiled_.training) {
            list_backward();
            resolve_gradients();
        }
    }
    [[nodiscard]] ExecutionOrder take() {
        return {std::move(segments_), activations_.all(), gradients_.all()};
    }

    [[nodiscard]] const Graph::Node& node_at(int node) const {
        return nodes_[static_cast<std::size_t>(node)];
    }
    [[nodiscard]] const KernelTraits& traits(int node) const {
        return compiled_.kernels[static_cast<std::size_t>(node)]->traits();
    }

    void list_forward() {
        for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
            const KernelTraits& t = traits(node);
            if (node == compiled_.fused_node) {
                continue;
            }
            if (t.is_view) {
                activations_.merge(node_at(node).inputs[0], node_at(node).output);
                continue;
            }
            for (int pass = 0; pass < t.forward_passes; ++pass) {
                steps_.push_back(
                    {{StepKind::kForward, node, pass, pass + 1 == t.forward_passes}, {}, {}});
            }
        }
    }

    void list_backward() {
        for (int node = static_cast<int>(nodes_.size()) - 1; node >= 0; --node) {
            if (!compiled_.wants_gradient_of(node_at(node).output)) {
                continue;
            }
            const KernelTraits& t = traits(node);
            // A view takes part in resolve_gradients as a step without a call.
            const int passes = t.is_view ? 1 : t.backward_passes;
            for (int pass = 0; pass < passes; ++pass) {
                steps_.push_back({{StepKind::kBackward, node, pass, pass + 1 == passes}, {}, {}});
            }
        }
    }

    /// The first contribution in backward order assigns, later ones add. A passed-through gradient
    /// shares memory with the output's when it is first. Input 0 is written in the last pass,
    /// the others in the first.
    void resolve_gradients() {
        std::vector<char> exists(static_cast<std::size_t>(compiled_.graph.values()), char{0});
        for (PlannedStep& planned : steps_) {
            if (planned.step.kind == StepKind::kBackward) {
                resolve_step(planned, exists);
            }
        }
        // Views have done their part: only their additions remain as work.
        std::erase_if(steps_, [this](const PlannedStep& planned) {
            return planned.step.kind == StepKind::kBackward && traits(planned.step.node).is_view &&
                   planned.additions.empty();
        });
    }

    void resolve_step(PlannedStep& planned, std::vector<char>& exists) {
        const Step& step = planned.step;
        const Graph::Node& node = node_at(step.node);
        const KernelTraits& t = traits(step.node);
        const int shared_input = t.is_view ? 0 : t.pass_through_input;
        for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
            const int value = node.inputs[static_cast<std::size_t>(input)];
            const bool in_last = input == 0 && input != shared_input;
            const bool due = in_last ? step.last_pass : step.pass == 0;
            if (!due || !compiled_.wants_gradient_of(value)) {
                continue;
            }
            char& known = exists[static_cast<std::size_t>(value)];
            if (input != shared_input) {
                planned.writes.push_back({.input = input,
                                          .value = value,
                                          .accumulate = known != 0,
                                          .by_kernel = known != 0 && input == t.adding_input});
            } else if (known == 0) {
                gradients_.merge(node.output, value);
            } else {
                planned.additions.push_back({node.output, value});
            }
            known = 1;
        }
    }

    /// Bytes of one sample's tensors that a step streams.
    [[nodiscard]] std::size_t step_bytes(const Step& step) const {
        if (step.kind == StepKind::kLoss) {
            return compiled_.sample_bytes(compiled_.graph.logits().index);
        }
        const Graph::Node& node = node_at(step.node);
        std::size_t bytes = compiled_.sample_bytes(node.output);
        for (const int input : node.inputs) {
            bytes += compiled_.sample_bytes(input);
        }
        return bytes;
    }
    [[nodiscard]] std::size_t weight_bytes(const Step& step) const {
        return step.kind == StepKind::kLoss ? 0 : traits(step.node).weight_bytes;
    }

    /// Samples per slice that suit a step: tensors in cache, but enough work per weight read.
    [[nodiscard]] std::int64_t wanted_slice(const Step& step) const {
        constexpr std::size_t kReuse = 2;
        const std::size_t bytes = std::max<std::size_t>(step_bytes(step), 1);
        const auto in_cache = static_cast<std::int64_t>(cache_bytes_ / bytes);
        const auto for_weights = static_cast<std::int64_t>(kReuse * weight_bytes(step) / bytes);
        return std::clamp(std::max(in_cache, for_weights), std::int64_t{1}, member_samples_);
    }

    void cut_segments() {
        constexpr std::int64_t kTolerance = 2;
        // Gradients are announced at the end of a segment: not later than every so many bytes.
        constexpr std::size_t kAnnounced = std::size_t{64} << 10;
        std::int64_t smallest = 0;  // wish of the steps with weights so far; 0: none
        bool cut_here = true;       // the step before asked for it
        std::size_t unannounced = 0;
        for (PlannedStep& planned : steps_) {
            // It goes over its slice in parts of its own: the whole of a member's samples at once.
            const bool fused =
                planned.step.node == compiled_.fused_node && compiled_.fused_node >= 0;
            const std::int64_t wanted = fused ? member_samples_ : wanted_slice(planned.step);
            const bool weighty = weight_bytes(planned.step) > 0;
            const bool unlike = weighty && smallest > 0 &&
                                (wanted > smallest * kTolerance || wanted * kTolerance < smallest);
            if (cut_here || planned.step.pass > 0 || unlike || fused) {
                segments_.emplace_back().slice = member_samples_;
                smallest = 0;
                unannounced = 0;
            }
            if (planned.step.kind == StepKind::kBackward) {
                unannounced += weight_bytes(planned.step);
            }
            cut_here = planned.step.kind == StepKind::kLoss || fused || unannounced >= kAnnounced;
            if (weighty) {
                smallest = smallest == 0 ? wanted : std::min(smallest, wanted);
            }
            Segment& segment = segments_.back();
            segment.slice = std::min(segment.slice, wanted);
            segment.steps.push_back(std::move(planned));
        }
        for (Segment& segment : segments_) {  // equal slices rather than a small rest
            const std::int64_t count = (member_samples_ + segment.slice - 1) / segment.slice;
            segment.slice = (member_samples_ + count - 1) / count;
        }
    }

    const CompiledGraph& compiled_;
    const std::vector<Graph::Node>& nodes_;
    std::int64_t member_samples_;
    std::size_t cache_bytes_;
    StorageSets activations_;
    StorageSets gradients_;
    std::vector<PlannedStep> steps_;
    std::vector<Segment> segments_;
};

}  // namespace

ExecutionOrder order_execution(const CompiledGraph& compiled, std::int64_t member_samples,
                               std::size_t cache_bytes) {
    return Orderer(compiled, member_samples, cache_bytes).run_cut();
}

std::vector<char> nodes_that_add(const CompiledGraph& compiled) {
    std::vector<char> adds(compiled.kernels.size(), char{0});
    const ExecutionOrder order = order_whole_batch(compiled, 1);
    for (const PlannedStep& planned : order.segments.front().steps) {
        for (const GradientWrite& write : planned.writes) {
            if (write.by_kernel) {
                adds[static_cast<std::size_t>(planned.step.node)] = 1;
            }
        }
    }
    return adds;
}

ExecutionOrder order_whole_batch(const CompiledGraph& compiled, std::int64_t batch) {
    return Orderer(compiled, batch, 0).run_whole();
}

}  // namespace cohort
