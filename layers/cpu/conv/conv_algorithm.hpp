#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cohort/core/thread_team.hpp"
#include "cohort/layers/kernel.hpp"
#include "cohort/layers/layer.hpp"

namespace cohort {

/// A convolution as its algorithms see it: what to compute, and how its tensors lie in memory.
struct ConvProblem {
    ConvOptions options;
    TensorFormat input;   ///< of the source and of its gradient
    TensorFormat output;  ///< of the output and of its gradient
    bool training = true;
    ThreadTeam* team = nullptr;  ///< outlives the algorithms
};

enum class ConvDirection { kForward, kData, kWeights };

/// One direction of one convolution by one implementation, for slices of all sizes. Weights are
/// float [O, I/g, KH, KW] outside of it; the order and the padding in which it wants them is its
/// own affair. Memory that it is given begins at a cache line. Padding channels of a blocked tensor
/// are zero where it reads them, and it writes zeros there. Equal arguments give equal bits.
/// Methods that are const are thread safe.
class ConvAlgorithm : public Interface {
public:
    /// Tells implementations apart, in lines of the log and in the file of choices: oneDNN's own
    /// name for its primitive, or "own:" and a word.
    [[nodiscard]] virtual std::string name() const = 0;
    /// Makes ready for slices of `samples` samples. False: it has none for them, and the algorithm
    /// is not used for any size. Errors: DeviceError.
    [[nodiscard]] virtual bool prepare(std::int64_t samples) = 0;
    /// Of one call; a size that was prepared.
    [[nodiscard]] virtual std::size_t scratch_bytes(std::int64_t samples) const = 0;
};

/// Forward, or the gradient of the source (ConvDirection::kData): a tensor times weights.
class ConvProduct : public ConvAlgorithm {
public:
    /// Of the weights (and the bias, forward) as it wants them, which all slices of a pass share.
    /// Known once a size was prepared.
    [[nodiscard]] virtual std::size_t weight_bytes() const = 0;
    /// To be called outside of team.run(), before a pass. @param bias  [O]; null in kData and where
    /// there is none
    virtual void prepare_weights(const float* weights, const float* bias,
                                 std::byte* prepared) const = 0;
    /// Assigns `to`. @param from  source (forward) or gradient of the output (kData), of the type
    /// that the format says
    virtual void run(std::int64_t samples, const std::byte* prepared, const float* from, float* to,
                     std::byte* scratch) const = 0;
};

/// The gradients of weights and bias.
class ConvWeightGradient : public ConvAlgorithm {
public:
    /// Of one team member's sums: floats that can be added element by element; a multiple of 64.
    /// Known once a size was prepared.
    [[nodiscard]] virtual std::size_t sum_bytes() const = 0;
    /// @param adds  to sums that an earlier slice has left; false: assigns
    virtual void run(std::int64_t samples, const float* source, const float* output_gradient,
                     bool adds, std::byte* sums, std::byte* scratch) const = 0;
    /// Memory for finish().
    [[nodiscard]] virtual std::size_t finish_bytes() const = 0;
    /// Assigns the gradients. To be called outside of team.run(), after a pass. @param bias  null
    /// where there is none
    virtual void finish(const std::byte* sums, std::byte* memory, float* weights,
                        float* bias) const = 0;
};

}  // namespace cohort
