#pragma once

#include <memory>
#include <optional>
#include <string>

#include "layers/cuda/dnn/conv_graphs.hpp"
#include "layers/cuda/dnn/dnn_choice.hpp"
#include "layers/cuda/kernels/conv_kernels.hpp"
#include "layers/cuda/kernels/depthwise_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort::cuda {

/// How one direction of a convolution is computed: PlanVariant::kind.
enum ConvWay : int {
    kGraph,           ///< by cuDNN; a tail follows
    kGraphWithTail,   ///< by cuDNN, with the tail
    kGraphThenAdded,  ///< by cuDNN to memory of its own, then added
    kDepthwise        ///< by the kernels of depthwise_kernels.hpp; a tail follows
};

/// The problem as those kernels take it; nullopt: they cannot.
[[nodiscard]] std::optional<DepthwiseProblem> depthwise_problem(const ConvProblem& problem,
                                                                int multiprocessors);

/// Asks for the plans of a convolution's three directions; they are measured against each other.
class ConvRequests {
public:
    using Plan = std::shared_ptr<const ChosenPlan>;

    /// @param spec, support  outlive it
    ConvRequests(const ConvSpec& spec, Support& support, TuningCache* tuning)
        : spec_(spec), support_(support), tuning_(tuning) {}

    /// Something follows the convolution itself.
    [[nodiscard]] bool has_tail() const { return spec_.options.bias || spec_.relu; }

    /// @param rows  of the output
    [[nodiscard]] Plan forward(const ConvProblem& wanted, const RowProblem& rows);
    /// @param adds  the gradient is added to what is there
    [[nodiscard]] Plan data(const ConvProblem& wanted, bool adds);
    [[nodiscard]] Plan filter(const ConvProblem& wanted);

private:
    [[nodiscard]] ConvTail tail() const;
    [[nodiscard]] PlanRequest request(const std::string& what, const ConvProblem& wanted) const;
    [[nodiscard]] std::optional<DepthwiseProblem> depthwise(const ConvProblem& wanted) const;
    [[nodiscard]] std::function<void(std::span<void* const>)> tail_alone(const RowProblem& rows);

    const ConvSpec& spec_;
    Support& support_;
    TuningCache* tuning_;
};

}  // namespace cohort::cuda
