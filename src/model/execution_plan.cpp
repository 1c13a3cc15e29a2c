#include "execution_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "cohort/tensor/arena.hpp"

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

private:
    std::vector<int> parent_;
};

/// First and last step that touches something.
struct Life {
    int first = std::numeric_limits<int>::max();
    int last = -1;
    std::size_t sample_bytes = 0;

    void touch(int step) {
        first = std::min(first, step);
        last = std::max(last, step);
    }
    [[nodiscard]] bool used() const { return last >= 0; }
};

class Planner {
public:
    Planner(CompiledGraph& compiled, std::int64_t batch, int members, std::size_t cache_bytes)
        : compiled_(compiled),
          nodes_(compiled.graph.nodes()),
          members_(members),
          cache_bytes_(cache_bytes),
          activation_sets_(compiled.graph.values()),
          gradient_sets_(compiled.graph.values()) {
        plan_.batch = batch;
        plan_.member_samples = (batch + members - 1) / members;
    }

    ExecutionPlan run() {
        list_steps();
        resolve_gradients();
        cut_segments();
        find_lives();
        prepare_kernels();
        place();
        return std::move(plan_);
    }

private:
    [[nodiscard]] const KernelTraits& traits(int node) const {
        return compiled_.kernels[static_cast<std::size_t>(node)]->traits();
    }
    [[nodiscard]] std::size_t sample_bytes(int value) const {
        return static_cast<std::size_t>(
                   compiled_.formats[static_cast<std::size_t>(value)].sample_floats()) *
               sizeof(float);
    }
    [[nodiscard]] bool wants_gradient(int value) const {
        return compiled_.wants_gradient[static_cast<std::size_t>(value)] != 0;
    }

    void list_steps() {
        const int count = static_cast<int>(nodes_.size());
        for (int node = 0; node < count; ++node) {
            const KernelTraits& t = traits(node);
            if (t.is_view) {
                activation_sets_.merge(nodes_[static_cast<std::size_t>(node)].inputs[0],
                                       nodes_[static_cast<std::size_t>(node)].output);
                continue;
            }
            for (int pass = 0; pass < t.forward_passes; ++pass) {
                steps_.push_back(
                    {{StepKind::kForward, node, pass, pass + 1 == t.forward_passes}, {}, {}});
            }
        }
        steps_.push_back({{StepKind::kLoss, -1, 0, true}, {}, {}});
        if (!compiled_.training) {
            return;
        }
        for (int node = count - 1; node >= 0; --node) {
            if (!wants_gradient(nodes_[static_cast<std::size_t>(node)].output)) {
                continue;
            }
            const KernelTraits& t = traits(node);
            // A view still takes part in resolve_gradients, as a step without a call.
            const int passes = t.is_view ? 1 : t.backward_passes;
            for (int pass = 0; pass < passes; ++pass) {
                steps_.push_back({{StepKind::kBackward, node, pass, pass + 1 == passes}, {}, {}});
            }
        }
    }

    /// Decides for every gradient contribution whether it assigns, adds or shares memory. The
    /// first in backward order assigns; input 0 is written in the last pass, others in the first.
    void resolve_gradients() {
        std::vector<char> exists(static_cast<std::size_t>(compiled_.graph.values()), char{0});
        for (PlannedStep& planned : steps_) {
            const Step& step = planned.step;
            if (step.kind != StepKind::kBackward) {
                continue;
            }
            const Graph::Node& node = nodes_[static_cast<std::size_t>(step.node)];
            const KernelTraits& t = traits(step.node);
            const int shared_input = t.is_view ? 0 : t.pass_through_input;
            for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
                const int value = node.inputs[static_cast<std::size_t>(input)];
                const bool due = input == shared_input ? step.pass == 0
                                 : input == 0          ? step.last_pass
                                                       : step.pass == 0;
                if (!due || !wants_gradient(value)) {
                    continue;
                }
                char& known = exists[static_cast<std::size_t>(value)];
                if (input == shared_input) {
                    if (known == 0) {
                        gradient_sets_.merge(node.output, value);
                    } else {
                        planned.additions.push_back({node.output, value});
                    }
                } else {
                    planned.writes.push_back({input, value, known != 0, {}});
                }
                known = 1;
            }
        }
        // Views have done their part: only their additions remain as work.
        std::erase_if(steps_, [this](const PlannedStep& planned) {
            return planned.step.kind == StepKind::kBackward && traits(planned.step.node).is_view &&
                   planned.additions.empty();
        });
    }

    /// Bytes of a slice's tensors that one step streams, per sample.
    [[nodiscard]] std::size_t step_bytes(const Step& step) const {
        if (step.kind == StepKind::kLoss) {
            return sample_bytes(compiled_.graph.logits().index);
        }
        const Graph::Node& node = nodes_[static_cast<std::size_t>(step.node)];
        std::size_t bytes = sample_bytes(node.output);
        for (const int input : node.inputs) {
            bytes += sample_bytes(input);
        }
        return std::max(bytes, std::size_t{1});
    }

    /// Samples per slice that suit a step: tensors in cache, but enough work per weight read.
    [[nodiscard]] std::int64_t wanted_slice(const Step& step) const {
        constexpr std::size_t kReuse = 2;
        const std::size_t bytes = step_bytes(step);
        const std::size_t weights =
            step.kind == StepKind::kLoss ? 0 : traits(step.node).weight_bytes;
        const auto in_cache = static_cast<std::int64_t>(cache_bytes_ / bytes);
        const auto for_weights = static_cast<std::int64_t>(kReuse * weights / bytes);
        return std::clamp(std::max(in_cache, for_weights), std::int64_t{1}, plan_.member_samples);
    }

    void cut_segments() {
        constexpr std::int64_t kTolerance = 2;
        std::int64_t smallest = 0;  // 0: no step with a preference yet
        for (PlannedStep& planned : steps_) {
            const Step& step = planned.step;
            const bool weighty = step.kind != StepKind::kLoss && traits(step.node).weight_bytes > 0;
            const std::int64_t wanted = wanted_slice(step);
            const bool unlike = weighty && smallest > 0 &&
                                (wanted > smallest * kTolerance || wanted * kTolerance < smallest);
            if (plan_.segments.empty() || step.pass > 0 || unlike) {
                plan_.segments.emplace_back();
                plan_.segments.back().slice = plan_.member_samples;
                smallest = 0;
            }
            if (weighty) {
                smallest = smallest == 0 ? wanted : std::min(smallest, wanted);
            }
            Segment& segment = plan_.segments.back();
            segment.slice = std::min(segment.slice, wanted);
            segment_of_.push_back(static_cast<int>(plan_.segments.size()) - 1);
            step_order_.push_back(step);
            segment.steps.push_back(std::move(planned));
        }
        for (Segment& segment : plan_.segments) {  // equal slices rather than a small rest
            const std::int64_t count = (plan_.member_samples + segment.slice - 1) / segment.slice;
            segment.slice = (plan_.member_samples + count - 1) / count;
        }
    }

    void find_lives() {
        const auto values = static_cast<std::size_t>(compiled_.graph.values());
        activation_lives_.resize(values);
        gradient_lives_.resize(values);
        saved_lives_.resize(nodes_.size());
        for (int value = 0; value < static_cast<int>(values); ++value) {
            activation_life(value).sample_bytes =
                std::max(activation_life(value).sample_bytes, sample_bytes(value));
            gradient_life(value).sample_bytes =
                std::max(gradient_life(value).sample_bytes, sample_bytes(value));
        }
        int at = 0;
        for (Segment& segment : plan_.segments) {
            for (PlannedStep& planned : segment.steps) {
                touch_step(planned, at++);
            }
        }
    }

    [[nodiscard]] Life& activation_life(int value) {
        return activation_lives_[static_cast<std::size_t>(activation_sets_.find(value))];
    }
    [[nodiscard]] Life& gradient_life(int value) {
        return gradient_lives_[static_cast<std::size_t>(gradient_sets_.find(value))];
    }

    void touch_step(PlannedStep& planned, int at) {
        const Step& step = planned.step;
        if (step.kind == StepKind::kLoss) {
            activation_life(compiled_.graph.logits().index).touch(at);
            if (compiled_.training) {
                gradient_life(compiled_.graph.logits().index).touch(at);
            }
            return;
        }
        const Graph::Node& node = nodes_[static_cast<std::size_t>(step.node)];
        const KernelTraits& t = traits(step.node);
        const bool forward = step.kind == StepKind::kForward;
        Life& saved = saved_lives_[static_cast<std::size_t>(step.node)];
        saved.sample_bytes = t.saved_bytes;
        if (t.saved_bytes > 0) {
            saved.touch(at);
        }
        if (!t.is_view && (forward || t.backward_reads_inputs)) {
            for (const int input : node.inputs) {
                activation_life(input).touch(at);
            }
        }
        if (forward ? step.last_pass : t.backward_reads_output) {
            activation_life(node.output).touch(at);
        }
        if (forward) {
            return;
        }
        gradient_life(node.output).touch(at);
        for (GradientWrite& write : planned.writes) {
            gradient_life(write.value).touch(at);
            if (write.accumulate) {
                extra_.push_back({at, sample_bytes(write.value), &write});
            }
        }
        for (const GradientAddition& addition : planned.additions) {
            gradient_life(addition.to_value).touch(at);
        }
    }

    /// All slice sizes a segment will use.
    [[nodiscard]] std::set<std::int64_t> slice_sizes(std::int64_t slice) const {
        std::set<std::int64_t> sizes;
        for (std::int64_t begin = 0; begin < plan_.batch; begin += plan_.member_samples) {
            const std::int64_t part = std::min(plan_.member_samples, plan_.batch - begin);
            if (part >= slice) {
                sizes.insert(slice);
            }
            if (part % slice != 0) {
                sizes.insert(part % slice);
            }
        }
        return sizes;
    }

    void prepare_kernels() {
        // The most common size first: measurements are made with it.
        std::vector<std::vector<std::int64_t>> sizes(nodes_.size());
        for (const Segment& segment : plan_.segments) {
            const std::set<std::int64_t> used = slice_sizes(segment.slice);
            for (const PlannedStep& planned : segment.steps) {
                if (planned.step.kind != StepKind::kLoss) {
                    auto& list = sizes[static_cast<std::size_t>(planned.step.node)];
                    list.insert(list.end(), used.rbegin(), used.rend());
                }
            }
        }
        memory_.resize(nodes_.size());
        for (std::size_t node = 0; node < nodes_.size(); ++node) {
            if (!sizes[node].empty()) {
                memory_[node] = compiled_.kernels[node]->prepare(sizes[node]);
                scratch_bytes_ = std::max({scratch_bytes_, memory_[node].forward_scratch,
                                           memory_[node].backward_scratch});
            }
        }
    }

    // ---- placement -------------------------------------------------------------------------

    struct Request {
        ArenaRequest arena;
        Place* place;
    };

    [[nodiscard]] int segment_at(int step) const {
        return segment_of_[static_cast<std::size_t>(step)];
    }

    /// A tensor: in the batch arena (lifetime in segments) or, when all its life is in one
    /// segment, per slice (lifetime in steps).
    void request(const Life& life, Place& place) {
        if (!life.used() || life.sample_bytes == 0) {
            return;
        }
        const int first = segment_at(life.first);
        const int last = segment_at(life.last);
        place.sample_bytes = life.sample_bytes;
        if (first == last) {
            place.kind = Place::Kind::kSlice;
            const std::int64_t slice = plan_.segments[static_cast<std::size_t>(first)].slice;
            slice_requests_.push_back(
                {{life.sample_bytes * static_cast<std::size_t>(slice), life.first, life.last},
                 &place});
        } else {
            place.kind = Place::Kind::kBatch;
            batch_requests_.push_back(
                {{life.sample_bytes * static_cast<std::size_t>(plan_.batch), first, last}, &place});
        }
    }

    void request_shared(StepKind kind, std::vector<Place>& places) {
        for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
            const KernelMemory& memory = memory_[static_cast<std::size_t>(node)];
            const std::size_t bytes =
                kind == StepKind::kForward ? memory.forward_shared : memory.backward_shared;
            Life life;
            for (std::size_t at = 0; at < step_order_.size(); ++at) {
                if (step_order_[at].kind == kind && step_order_[at].node == node) {
                    life.touch(static_cast<int>(at));
                }
            }
            if (bytes > 0 && life.used()) {
                batch_requests_.push_back({{bytes, segment_at(life.first), segment_at(life.last)},
                                           &places[static_cast<std::size_t>(node)]});
            }
        }
    }

    static std::size_t resolve(std::vector<Request>& requests) {
        std::vector<ArenaRequest> plain;
        for (const Request& request : requests) {
            plain.push_back(request.arena);
        }
        const ArenaPlan planned = plan_arena(plain);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            requests[i].place->offset = planned.offsets[i];
        }
        return planned.total_bytes;
    }

    void place() {
        const auto values = static_cast<std::size_t>(compiled_.graph.values());
        plan_.activations.resize(values);
        plan_.gradients.resize(values);
        plan_.saved.resize(nodes_.size());
        for (std::size_t v = 0; v < values; ++v) {
            if (activation_sets_.find(static_cast<int>(v)) == activation_sets_.find(0)) {
                plan_.activations[v] = {Place::Kind::kInput, 0, sample_bytes(0)};
            } else if (activation_sets_.find(static_cast<int>(v)) == static_cast<int>(v)) {
                request(activation_lives_[v], plan_.activations[v]);
            }
            if (gradient_sets_.find(static_cast<int>(v)) == static_cast<int>(v)) {
                request(gradient_lives_[v], plan_.gradients[v]);
            }
        }
        for (std::size_t node = 0; node < nodes_.size(); ++node) {
            request(saved_lives_[node], plan_.saved[node]);
        }
        for (const Extra& extra : extra_) {
            Life life;
            life.touch(extra.step);
            life.sample_bytes = extra.sample_bytes;
            request(life, extra.write->scratch);
        }
        std::vector<Place> forward_shared(nodes_.size());
        std::vector<Place> backward_shared(nodes_.size());
        request_shared(StepKind::kForward, forward_shared);
        request_shared(StepKind::kBackward, backward_shared);
        const std::size_t batch_bytes = resolve(batch_requests_);
        const std::size_t slice_bytes = resolve(slice_requests_);
        finish_places(forward_shared, backward_shared, batch_bytes, slice_bytes);
    }

    void finish_places(const std::vector<Place>& forward_shared,
                       const std::vector<Place>& backward_shared, std::size_t batch_bytes,
                       std::size_t slice_bytes) {
        constexpr std::size_t kPage = 4096;  // members' regions never share a page
        const auto pages = [](std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
        for (std::size_t v = 0; v < plan_.activations.size(); ++v) {
            const int a = activation_sets_.find(static_cast<int>(v));
            const int g = gradient_sets_.find(static_cast<int>(v));
            plan_.activations[v] = plan_.activations[static_cast<std::size_t>(a)];
            plan_.gradients[v] = plan_.gradients[static_cast<std::size_t>(g)];
        }
        for (std::size_t node = 0; node < nodes_.size(); ++node) {
            plan_.forward_shared.push_back(forward_shared[node].offset);
            plan_.backward_shared.push_back(backward_shared[node].offset);
        }
        plan_.member_base = pages(batch_bytes);
        plan_.scratch_offset = slice_bytes;
        plan_.member_bytes = pages(slice_bytes + scratch_bytes_);
        plan_.arena_bytes =
            plan_.member_base + plan_.member_bytes * static_cast<std::size_t>(members_);
    }

    struct Extra {
        int step;
        std::size_t sample_bytes;
        GradientWrite* write;
    };

    CompiledGraph& compiled_;
    const std::vector<Graph::Node>& nodes_;
    int members_;
    std::size_t cache_bytes_;
    StorageSets activation_sets_;
    StorageSets gradient_sets_;
    ExecutionPlan plan_;
    std::vector<PlannedStep> steps_;
    std::vector<Step> step_order_;
    std::vector<int> segment_of_;
    std::vector<Life> activation_lives_;
    std::vector<Life> gradient_lives_;
    std::vector<Life> saved_lives_;
    std::vector<Extra> extra_;
    std::vector<KernelMemory> memory_;
    std::size_t scratch_bytes_ = 0;
    std::vector<Request> batch_requests_;
    std::vector<Request> slice_requests_;
};

}  // namespace

ExecutionPlan plan_execution(CompiledGraph& compiled, std::int64_t batch, int members,
                             std::size_t cache_bytes) {
    return Planner(compiled, batch, members, cache_bytes).run();
}

}  // namespace cohort
