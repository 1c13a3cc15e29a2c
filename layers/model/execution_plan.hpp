#pragma once

#include <cstdint>
#include <vector>

#include "cohort/model/graph.hpp"

namespace cohort {

struct ExecutorSetting;

/// The kernels of a network for one device, in training or inference form.
struct CompiledGraph {
    explicit CompiledGraph(const ExecutorSetting& setting);

    /// 0 for logits that never are in memory.
    [[nodiscard]] std::size_t sample_bytes(int value) const {
        const bool fused = fused_node >= 0 && value == graph.logits().index;
        return fused ? 0 : formats[static_cast<std::size_t>(value)].sample_bytes();
    }
    [[nodiscard]] bool wants_gradient_of(int value) const {
        return wants_gradient[static_cast<std::size_t>(value)] != 0;
    }

    const Graph& graph;
    bool training;
    std::vector<std::unique_ptr<Kernel>> kernels;  ///< per node
    std::vector<TensorFormat> formats;             ///< per value
    std::vector<char> wants_gradient;              ///< per value: depends on a parameter
    std::unique_ptr<LossKernel> loss;
    /// The last node where its kernel includes the loss: it has a backward step alone, and there is
    /// no step for the loss. -1: none.
    int fused_node = -1;
};

/// Whether some layer draws by the samples' ids, in training.
[[nodiscard]] bool draws_by_ids(const Graph& graph);

enum class StepKind { kForward, kBackward, kLoss };

/// One kernel call per slice.
struct Step {
    StepKind kind = StepKind::kForward;
    int node = -1;
    int pass = 0;
    bool last_pass = false;
};

/// Where a tensor lies: in the caller's memory, in the arena for the whole batch, or in each team
/// member's own region for one slice.
struct Place {
    enum class Kind { kNone, kInput, kBatch, kSlice } kind = Kind::kNone;
    std::size_t offset = 0;
    std::size_t sample_bytes = 0;
};

/// A backward call's write of one input gradient.
struct GradientWrite {
    int input = -1;  ///< index among the node's inputs
    int value = -1;
    bool accumulate = false;  ///< the value's gradient already holds something
    bool by_kernel = false;   ///< which the kernel adds to
    Place scratch;            ///< else it writes here, and that is added; kSlice or kBatch memory

    [[nodiscard]] bool needs_scratch() const noexcept { return accumulate && !by_kernel; }
};

/// Addition of a passed-through output gradient to an input's gradient that already exists.
struct GradientAddition {
    int from_value = -1;
    int to_value = -1;
};

struct PlannedStep {
    Step step;
    std::vector<GradientWrite> writes;
    std::vector<GradientAddition> additions;
};

/// Steps that run slice by slice, back to back, while the slice is in cache. Between segments all
/// team members meet.
struct Segment {
    std::vector<PlannedStep> steps;
    std::int64_t slice = 1;  ///< samples
};

/// Which kernel calls run in which order, cut into segments, and which values share memory.
struct ExecutionOrder {
    std::vector<Segment> segments;
    std::vector<int> activation_storage;  ///< per value: the value whose memory it uses
    std::vector<int> gradient_storage;    ///< per value, likewise
};

/// @param member_samples most samples a team member handles
/// @param cache_bytes    what one step's tensors of a slice should fit into
[[nodiscard]] ExecutionOrder order_execution(const CompiledGraph& compiled,
                                             std::int64_t member_samples, std::size_t cache_bytes);

/// Per node: its kernel adds to a gradient (GradientWrite::by_kernel).
[[nodiscard]] std::vector<char> nodes_that_add(const CompiledGraph& compiled);

/// The same calls as one segment.
[[nodiscard]] ExecutionOrder order_whole_batch(const CompiledGraph& compiled, std::int64_t batch);

/// Where the tensors of a network lie.
struct TensorPlaces {
    std::vector<Place> activations;  ///< per value
    std::vector<Place> gradients;    ///< per value
    std::vector<Place> saved;        ///< per node
};

/// How one batch size runs and where everything lies.
///
/// Memory: tensors that live across segments are placed in one arena by liveness; those born and
/// dead within a segment exist only per slice and team member.
struct ExecutionPlan : TensorPlaces {
    std::int64_t batch = 0;
    std::int64_t member_samples = 0;  ///< samples of each member, the last ones may get fewer
    std::vector<Segment> segments;
    std::vector<std::size_t> forward_shared;   ///< per node, arena offset
    std::vector<std::size_t> backward_shared;  ///< per node, arena offset
    std::size_t member_base = 0;               ///< arena offset of the first member's region
    std::size_t member_bytes = 0;              ///< of each member's region
    std::size_t scratch_offset = 0;            ///< of kernel scratch within a member's region
    std::size_t arena_bytes = 0;
};

[[nodiscard]] ExecutionPlan plan_execution(CompiledGraph& compiled, std::int64_t batch, int members,
                                           std::size_t cache_bytes);

}  // namespace cohort
