// From an order of kernel calls to memory: which tensors live when, in the batch arena or per
// slice.
#include "layers/model/execution_plan.hpp"

#include <algorithm>
#include <set>

#include "layers/model/liveness.hpp"

namespace cohort {
namespace {

class Planner {
public:
    Planner(CompiledGraph& compiled, std::int64_t batch, int members, std::size_t cache_bytes)
        : compiled_(compiled),
          members_(members),
          order_(order_execution(compiled, (batch + members - 1) / members, cache_bytes)),
          liveness_(compiled, order_) {
        plan_.batch = batch;
        plan_.member_samples = (batch + members - 1) / members;
        plan_.segments = std::move(order_.segments);
    }

    ExecutionPlan run() {
        prepare_kernels();
        request_places();
        request_shared(liveness_.forward, &KernelMemory::forward_shared, plan_.forward_shared);
        request_shared(liveness_.backward, &KernelMemory::backward_shared, plan_.backward_shared);
        lay_out(place_requests(batch_requests_), place_requests(slice_requests_));
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
        const int first = liveness_.segment_of[static_cast<std::size_t>(life.first)];
        const int last = liveness_.segment_of[static_cast<std::size_t>(life.last)];
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

    void request_places() {
        const auto wanted = [this](const Life& life, Place& place) { request(life, place); };
        const auto input = static_cast<std::size_t>(order_.activation_storage[0]);
        liveness_.activations[input] = {};  // the caller's memory
        request_tensors(liveness_, order_, plan_, wanted);
        plan_.activations[input] = {Place::Kind::kInput, 0, compiled_.sample_bytes(0)};
        int at = 0;
        for (Segment& segment : plan_.segments) {
            request_additions(compiled_, segment.steps, at, wanted);
            at += static_cast<int>(segment.steps.size());
        }
    }

    void request_shared(const std::vector<Life>& lives, std::size_t KernelMemory::*bytes,
                        std::vector<std::size_t>& offsets) {
        offsets.resize(lives.size());
        for (std::size_t node = 0; node < lives.size(); ++node) {
            const Life& life = lives[node];
            if (life.used() && memory_[node].*bytes > 0) {
                batch_requests_.push_back(
                    {{memory_[node].*bytes,
                      liveness_.segment_of[static_cast<std::size_t>(life.first)],
                      liveness_.segment_of[static_cast<std::size_t>(life.last)]},
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

    CompiledGraph& compiled_;
    int members_;
    ExecutionOrder order_;
    Liveness liveness_;
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
