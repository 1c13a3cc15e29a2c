// Memory of a batch that runs as a whole, by the lives of single kernel calls.
#include "layers/model/whole_batch_plan.hpp"

#include <array>

#include "cohort/core/stored_samples.hpp"
#include "layers/model/liveness.hpp"

namespace cohort {
namespace {

class WholeBatchPlanner {
public:
    /// @param memory  what kernels want, per node
    WholeBatchPlanner(const CompiledGraph& compiled, std::int64_t batch, bool staged,
                      std::vector<KernelMemory> memory)
        : compiled_(compiled),
          staged_(staged),
          order_(order_whole_batch(compiled, batch)),
          liveness_(compiled, order_),
          end_(static_cast<int>(liveness_.segment_of.size()) - 1) {
        plan_.batch = batch;
        plan_.steps = std::move(order_.segments.front().steps);
        plan_.memory = std::move(memory);
    }

    WholeBatchPlan run() {
        request_places();
        request_kernels(liveness_.forward, &KernelMemory::forward_scratch, plan_.forward_scratch);
        request_kernels(liveness_.backward, &KernelMemory::backward_scratch,
                        plan_.backward_scratch);
        request_kernels(liveness_.forward, &KernelMemory::forward_shared, plan_.forward_shared);
        request_kernels(liveness_.backward, &KernelMemory::backward_shared, plan_.backward_shared);
        request_staging();
        plan_.arena_bytes = place_requests(requests_, WholeBatchPlan::kAlignment);
        share_places(order_.activation_storage, plan_.activations);
        share_places(order_.gradient_storage, plan_.gradients);
        return std::move(plan_);
    }

private:
    /// Before the first step, where the batch arrives.
    static constexpr int kArrival = -1;

    void request_bytes(std::size_t sample_bytes, int first, int last, std::size_t& offset) {
        requests_.push_back(
            {{sample_bytes * static_cast<std::size_t>(plan_.batch), first, last}, &offset});
    }

    void request(const Life& life, Place& place) {
        if (life.used() && life.sample_bytes > 0) {
            place.kind = Place::Kind::kBatch;
            place.sample_bytes = life.sample_bytes;
            request_bytes(life.sample_bytes, life.first, life.last, place.offset);
        }
    }

    void request_places() {
        const auto wanted = [this](const Life& life, Place& place) { request(life, place); };
        liveness_.activations[static_cast<std::size_t>(order_.activation_storage[0])].touch(
            kArrival);
        request_tensors(liveness_, order_, plan_, wanted);
        request_additions(compiled_, plan_.steps, 0, wanted);
    }

    void request_kernels(const std::vector<Life>& lives, std::size_t KernelMemory::*bytes,
                         std::vector<std::size_t>& offsets) {
        offsets.resize(lives.size());
        for (std::size_t node = 0; node < lives.size(); ++node) {
            const Life& life = lives[node];
            if (life.used() && plan_.memory[node].*bytes > 0) {
                requests_.push_back(
                    {{plan_.memory[node].*bytes, life.first, life.last}, &offsets[node]});
            }
        }
    }

    void request_staging() {
        const Graph& graph = compiled_.graph;
        const auto outputs = static_cast<std::size_t>(graph.outputs()) * sizeof(float);
        if (staged_) {
            const auto floats = static_cast<std::size_t>(graph.input_shape().elements());
            request_bytes(floats * sizeof(float), kArrival, kArrival, plan_.samples);
            request_bytes(sizeof(ImageCrop), kArrival, kArrival, plan_.crops);
            const auto channels = static_cast<std::size_t>(graph.input_shape()[0]);
            requests_.push_back(
                {{2 * channels * sizeof(float), kArrival, kArrival}, &plan_.scales});
            if (!compiled_.training) {
                request_bytes(outputs, kArrival, end_, plan_.outputs);
            }
        }
        if (graph.loss() == LossKind::kSoftmaxCrossEntropy) {
            request_bytes(static_cast<std::size_t>(graph.positions()) * sizeof(std::int32_t),
                          kArrival, end_, plan_.labels);
        } else {
            request_bytes(outputs, kArrival, end_, plan_.targets);
        }
        plan_.reads_ids = compiled_.training && draws_by_ids(graph);
        if (plan_.reads_ids) {
            request_bytes(sizeof(std::int64_t), kArrival, end_, plan_.ids);
        }
    }

    const CompiledGraph& compiled_;
    bool staged_;
    ExecutionOrder order_;
    Liveness liveness_;
    int end_;  ///< the last step
    WholeBatchPlan plan_;
    std::vector<Request> requests_;
};

std::vector<KernelMemory> prepare_kernels(CompiledGraph& compiled, std::int64_t batch) {
    const std::array<std::int64_t, 1> sizes{batch};
    std::vector<KernelMemory> memory;
    for (const auto& kernel : compiled.kernels) {
        memory.push_back(kernel->traits().is_view ? KernelMemory{} : kernel->prepare(sizes));
    }
    return memory;
}

}  // namespace

WholeBatchPlan plan_whole_batch(CompiledGraph& compiled, std::int64_t batch, bool staged) {
    return WholeBatchPlanner(compiled, batch, staged, prepare_kernels(compiled, batch)).run();
}

WholeBatchPlan plan_tensors(const CompiledGraph& compiled, std::int64_t batch, bool staged) {
    return WholeBatchPlanner(compiled, batch, staged,
                             std::vector<KernelMemory>(compiled.kernels.size()))
        .run();
}

std::int64_t largest_batch_within(const CompiledGraph& compiled, const WholeBatchPlan& plan,
                                  bool staged, std::uint64_t bytes) {
    std::int64_t fits = 0;
    for (std::int64_t above = plan.batch + 1; fits + 1 < above;) {
        const std::int64_t middle = fits + (above - fits) / 2;
        const auto trial = WholeBatchPlanner(compiled, middle, staged, plan.memory).run();
        (trial.arena_bytes <= bytes ? fits : above) = middle;
    }
    return fits;
}

std::vector<Piece> cut_pieces(const Graph& graph, const std::vector<PlannedStep>& steps,
                              std::size_t piece_bytes) {
    std::vector<Piece> pieces{{0, 0}};
    std::size_t bytes = 0;
    for (const PlannedStep& planned : steps) {
        if (pieces.back().end > pieces.back().begin &&
            (bytes >= piece_bytes || steps[pieces.back().end - 1].step.kind == StepKind::kLoss)) {
            pieces.push_back({pieces.back().end, pieces.back().end});
            bytes = 0;
        }
        ++pieces.back().end;
        const Step& step = planned.step;
        if (step.kind == StepKind::kBackward && step.last_pass) {
            for (const int range :
                 graph.nodes()[static_cast<std::size_t>(step.node)].parameter_ranges) {
                const auto index = static_cast<std::size_t>(range);
                bytes += static_cast<std::size_t>(graph.parameters().ranges()[index].size) *
                         sizeof(float);
            }
        }
    }
    return pieces;
}

}  // namespace cohort
