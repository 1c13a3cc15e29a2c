#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "layers/cuda/dnn/attention_graphs.hpp"
#include "layers/cuda/dnn/dnn_choice.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort::cuda {

/// Attention by the fused engines of cuDNN, which keep neither scores nor probabilities: for heads
/// of a multiple of 8 elements of 16 bits, where the version has an engine for the GPU. Engines are
/// the first of the heuristics, not measured: each is compiled when its plan is made.
class AttentionPlans {
public:
    AttentionPlans(const AttentionSpec& spec, const KernelContext& context);

    /// There may be plans for this layer.
    [[nodiscard]] bool possible() const noexcept;
    /// Makes the plans for so many samples.
    void prepare(std::int64_t samples);
    void forget(std::int64_t samples) { plans_.erase(samples); }
    [[nodiscard]] bool has_forward(std::int64_t samples) const;
    [[nodiscard]] bool has_backward(std::int64_t samples) const;
    [[nodiscard]] std::size_t forward_scratch(std::int64_t samples) const;
    [[nodiscard]] std::size_t backward_scratch(std::int64_t samples) const;

    /// @param slice  its saved memory as for AttentionProducts
    void forward(const KernelSlice& slice) const;
    /// Reads the output, too.
    void backward(const KernelSlice& slice) const;

private:
    /// Of one number of samples.
    struct Plans {
        std::shared_ptr<const ChosenPlan> forward;   ///< not found: no engine
        std::shared_ptr<const ChosenPlan> backward;  ///< likewise; null in inference
        bool summed = false;                         ///< backward goes by way of kQueriesSums
    };
    [[nodiscard]] AttentionProblem problem_of(std::int64_t samples) const;
    /// Bytes of a number in single precision for every sample, head and position.
    [[nodiscard]] std::size_t column_bytes(std::int64_t samples) const;

    AttentionProblem sample_;  ///< of one sample
    bool training_;
    bool deterministic_;
    float scale_;
    float unseen_;
    float unchanged_ = 1;
    Support& support_;
    std::map<std::int64_t, Plans> plans_;
};

}  // namespace cohort::cuda
