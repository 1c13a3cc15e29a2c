// From an order of kernel calls to memory: who lives when, in the batch arena or per slice.
#include "execution_plan.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "cohort/tensor/arena.hpp"
#include "execution_order.hpp"

namespace cohort {
namespace {

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

/// Collects the lives of everything that needs memory.
class Lives {
public:
    Lives(const CompiledGraph& compiled, const ExecutionOrder& order)
        : activations(static_cast<std::size_t>(compiled.graph.values())),
          gradients(activations.size()),
          saved(compiled.graph.nodes().size()),
          forward(saved.size()),
          backward(saved.size()),
          compiled_(compiled),
          order_(order) {
        for (std::size_t value = 0; value < activations.size(); ++value) {
            const std::size_t bytes = compiled.sample_bytes(static_cast<int>(value));
            activations[value].sample_bytes = bytes;
            gradients[value].sample_bytes = bytes;
        }
        int at = 0;
        for (const Segment& segment : order.segments) {
            for (const PlannedStep& planned : segment.steps) {
                touch(planned, at++);
                segment_of.push_back(static_cast<int>(&segment - order.segments.data()));
            }
        }
    }

    std::vector<Life> activations;  ///< per value that owns memory
    std::vector<Life> gradients;    ///< likewise
    std::vector<Life> saved;        ///< per node
    std::vector<Life> forward;      ///< per node: from its first to its last forward pass
    std::vector<Life> backward;
    std::vector<int> segment_of;  ///< per step

private:
    [[nodiscard]] Life& activation(int value) {
        return activations[static_cast<std::size_t>(
            order_.activation_storage[static_cast<std::size_t>(value)])];
    }
    [[nodiscard]] Life& gradient(int value) {
        return gradients[static_cast<std::size_t>(
            order_.gradient_storage[static_cast<std::size_t>(value)])];
    }

    void touch(const PlannedStep& planned, int at) {
        const Step& step = planned.step;
        if (step.kind == StepKind::kLoss) {
            activation(compiled_.graph.logits().index).touch(at);
            if (compiled_.training) {
                gradient(compiled_.graph.logits().index).touch(at);
            }
            return;
        }
        const auto index = static_cast<std::size_t>(step.node);
        const Graph::Node& node = compiled_.graph.nodes()[index];
        const KernelTraits& t = compiled_.kernels[index]->traits();
        const bool is_forward = step.kind == StepKind::kForward;
        (is_forward ? forward : backward)[index].touch(at);
        saved[index].sample_bytes = t.saved_bytes;
        saved[index].touch(at);
        if (!t.is_view && (is_forward || t.backward_reads_inputs)) {
            for (const int input : node.inputs) {
                activation(input).touch(at);
            }
        }
        if (is_forward ? step.last_pass : t.backward_reads_output) {
            activation(node.output).touch(at);
        }
        if (!is_forward) {
            touch_gradients(planned, node.output, at);
        }
    }

    void touch_gradients(const PlannedStep& planned, int output, int at) {
        gradient(output).touch(at);
        for (const GradientWrite& write : planned.writes) {
            gradient(write.value).touch(at);
        }
        for (const GradientAddition& addition : planned.additions) {
            gradient(addition.to_value).touch(at);
        }
    }

    const CompiledGraph& compiled_;
    const ExecutionOrder& order_;
};

/// Memory to be placed, and where to note the result.
struct Request {
    ArenaRequest arena;
    std::size_t* offset;
};

std::size_t resolve(const std::vector<Request>& requests) {
    std::vector<ArenaRequest> plain;
    for (const Request& request : requests) {
        plain.push_back(request.arena);
    }
    const ArenaPlan planned = plan_arena(plain);
    for (std::size_t i = 0; i < requests.size(); ++i) {
        *requests[i].offset = planned.offsets[i];
    }
    return planned.total_bytes;
}

class Planner {
public:
    Planner(CompiledGraph& compiled, std::int64_t batch, int members, std::size_t cache_bytes)
        : compiled_(compiled),
          members_(members),
          order_(order_execution(compiled, (batch + members - 1) / members, cache_bytes)),
          lives_(compiled, order_) {
        plan_.batch = batch;
        plan_.member_samples = (batch + members - 1) / members;
        plan_.segments = std::move(order_.segments);
    }

    ExecutionPlan run() {
        prepare_kernels();
        request_tensors();
        request_additions();
        request_shared(lives_.forward, &KernelMemory::forward_shared, plan_.forward_shared);
        request_shared(lives_.backward, &KernelMemory::backward_shared, plan_.backward_shared);
        lay_out(resolve(batch_requests_), resolve(slice_requests_));
        share_places(order_.activation_storage, plan_.activations);
        share_places(order_.gradient_storage, plan_.gradients);
        return std::move(plan_);
    }

private:
    /// All slice sizes a segment will use, the largest first.
    [[nodiscard]] std::vector<std::int64_t> slice_sizes(std::int64_t slice) const {
        std::set<std::int64_t, std::greater<>> sizes;
        for (std::int64_t begin = 0; begin < plan_.batch; begin += plan_.member_samples) {
            const std::int64_t part = std::min(plan_.member_samples, plan_.batch - begin);
            if (part >= slice) {
                sizes.insert(slice);
            }
            if (part % slice != 0) {
                sizes.insert(part % slice);
            }
        }
        return {sizes.begin(), sizes.end()};
    }

    void prepare_kernels() {
        const std::size_t nodes = compiled_.kernels.size();
        std::vector<std::vector<std::int64_t>> sizes(nodes);
        for (const Segment& segment : plan_.segments) {
            const std::vector<std::int64_t> used = slice_sizes(segment.slice);
            for (const PlannedStep& planned : segment.steps) {
                if (planned.step.kind != StepKind::kLoss) {
                    auto& list = sizes[static_cast<std::size_t>(planned.step.node)];
                    list.insert(list.end(), used.begin(), used.end());
                }
            }
        }
        memory_.resize(nodes);
        for (std::size_t node = 0; node < nodes; ++node) {
            if (!sizes[node].empty()) {
                memory_[node] = compiled_.kernels[node]->prepare(sizes[node]);
                scratch_bytes_ = std::max({scratch_bytes_, memory_[node].forward_scratch,
                                           memory_[node].backward_scratch});
            }
        }
    }

    /// A tensor goes to the batch arena (lifetime in segments) or, when all its life is in one
    /// segment, to each member's region (lifetime in steps).
    void request(const Life& life, Place& place) {
        if (!life.used() || life.sample_bytes == 0) {
            return;
        }
        const int first = lives_.segment_of[static_cast<std::size_t>(life.first)];
        const int last = lives_.segment_of[static_cast<std::size_t>(life.last)];
        place.sample_bytes = life.sample_bytes;
        if (first == last) {
            place.kind = Place::Kind::kSlice;
            const auto slice =
                static_cast<std::size_t>(plan_.segments[static_cast<std::size_t>(first)].slice);
            slice_requests_.push_back(
                {{life.sample_bytes * slice, life.first, life.last}, &place.offset});
        } else {
            place.kind = Place::Kind::kBatch;
            batch_requests_.push_back(
                {{life.sample_bytes * static_cast<std::size_t>(plan_.batch), first, last},
                 &place.offset});
        }
    }

    void request_tensors() {
        const std::size_t values = lives_.activations.size();
        plan_.activations.resize(values);
        plan_.gradients.resize(values);
        plan_.saved.resize(lives_.saved.size());
        const int input = order_.activation_storage[0];
        for (std::size_t value = 0; value < values; ++value) {
            if (static_cast<int>(value) == input) {
                plan_.activations[value] = {Place::Kind::kInput, 0, compiled_.sample_bytes(0)};
            } else if (order_.activation_storage[value] == static_cast<int>(value)) {
                request(lives_.activations[value], plan_.activations[value]);
            }
            if (order_.gradient_storage[value] == static_cast<int>(value)) {
                request(lives_.gradients[value], plan_.gradients[value]);
            }
        }
        for (std::size_t node = 0; node < lives_.saved.size(); ++node) {
            request(lives_.saved[node], plan_.saved[node]);
        }
    }

    /// Where a gradient contribution waits before it is added.
    void request_additions() {
        int at = 0;
        for (Segment& segment : plan_.segments) {
            for (PlannedStep& planned : segment.steps) {
                for (GradientWrite& write : planned.writes) {
                    if (write.accumulate) {
                        request({at, at, compiled_.sample_bytes(write.value)}, write.scratch);
                    }
                }
                ++at;
            }
        }
    }

    void request_shared(const std::vector<Life>& lives, std::size_t KernelMemory::*bytes,
                        std::vector<std::size_t>& offsets) {
        offsets.resize(lives.size());
        for (std::size_t node = 0; node < lives.size(); ++node) {
            const Life& life = lives[node];
            if (life.used() && memory_[node].*bytes > 0) {
                batch_requests_.push_back(
                    {{memory_[node].*bytes, lives_.segment_of[static_cast<std::size_t>(life.first)],
                      lives_.segment_of[static_cast<std::size_t>(life.last)]},
                     &offsets[node]});
            }
        }
    }

    void lay_out(std::size_t batch_bytes, std::size_t slice_bytes) {
        constexpr std::size_t kPage = 4096;  // members' regions never share a page
        const auto pages = [](std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
        plan_.member_base = pages(batch_bytes);
        plan_.scratch_offset = slice_bytes;
        plan_.member_bytes = pages(slice_bytes + scratch_bytes_);
        plan_.arena_bytes =
            plan_.member_base + plan_.member_bytes * static_cast<std::size_t>(members_);
    }

    static void share_places(const std::vector<int>& storage, std::vector<Place>& places) {
        for (std::size_t value = 0; value < places.size(); ++value) {
            places[value] = places[static_cast<std::size_t>(storage[value])];
        }
    }

    CompiledGraph& compiled_;
    int members_;
    ExecutionOrder order_;
    Lives lives_;
    ExecutionPlan plan_;
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
