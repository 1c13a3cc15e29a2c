#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layers/model/execution_plan.hpp"

namespace cohort {

/// How one batch size runs as a whole, and where everything lies: every call has a life of its own,
/// scratch of kernels included. Offsets are of the arena, multiples of 256; the activation of the
/// input lies there as kernels read it.
struct WholeBatchPlan : TensorPlaces {
    static constexpr std::size_t kAlignment = 256;

    std::int64_t batch = 0;
    std::vector<PlannedStep> steps;
    std::vector<KernelMemory> memory;           ///< per node, for this batch
    std::vector<std::size_t> forward_scratch;   ///< per node
    std::vector<std::size_t> backward_scratch;  ///< per node
    std::vector<std::size_t> forward_shared;    ///< per node
    std::vector<std::size_t> backward_shared;   ///< per node
    // Data copied from and to the host.
    std::size_t samples = 0;  ///< single precision, row-major; used when a support makes the input
    std::size_t crops = 0;    ///< of samples as they are stored, which lie where samples do
    std::size_t scales = 0;   ///< likewise
    std::size_t labels = 0;
    std::size_t ids = 0;
    bool reads_ids = false;  ///< some layer draws by sample ids
    std::size_t targets = 0;
    std::size_t outputs = 0;  ///< single precision; inference with a support
    std::size_t arena_bytes = 0;
};

/// @param staged  a KernelSupport makes the input from the samples, and the outputs single
/// precision
[[nodiscard]] WholeBatchPlan plan_whole_batch(CompiledGraph& compiled, std::int64_t batch,
                                              bool staged);

/// The plan of the tensors alone, without memory of kernels; calls no kernel.
[[nodiscard]] WholeBatchPlan plan_tensors(const CompiledGraph& compiled, std::int64_t batch,
                                          bool staged);

/// The largest batch, at most that of the plan, whose arena takes no more than `bytes`; 0: none. It
/// assumes that kernels need no more memory for a smaller batch than for the plan's.
[[nodiscard]] std::int64_t largest_batch_within(const CompiledGraph& compiled,
                                                const WholeBatchPlan& plan, bool staged,
                                                std::uint64_t bytes);

/// Steps [begin, end), queued without a pause between.
struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
};

/// Forward and loss, then backward cut where so many bytes of gradients are final.
[[nodiscard]] std::vector<Piece> cut_pieces(const Graph& graph,
                                            const std::vector<PlannedStep>& steps,
                                            std::size_t piece_bytes);

}  // namespace cohort
