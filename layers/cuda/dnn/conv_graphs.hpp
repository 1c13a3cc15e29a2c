#pragma once

#include <memory>
#include <string>

#include "cohort/tensor/shape.hpp"
#include "layers/cuda/dnn/dnn_graph.hpp"
#include "layers/kernels.hpp"

// A convolution's operations as cuDNN's graphs.
namespace cohort::cuda {

/// One convolution of one batch size; images have channels last, filters are [K, R, S, C/groups].
struct ConvProblem {
    std::int64_t samples = 1;
    std::int64_t channels = 1;  ///< of the input as cuDNN sees it, padding included
    std::int64_t height = 1;
    std::int64_t width = 1;
    std::int64_t out_height = 1;
    std::int64_t out_width = 1;
    ConvOptions options;
    ElementType type = ElementType::kF32;

    [[nodiscard]] std::int64_t filter_channels() const noexcept {
        return channels / options.groups;
    }
};

/// "c16 32x32 k16 3x3 s1 p1 d1 g1 bf16": everything that a choice of engine depends on but for the
/// samples, the GPU and the library.
[[nodiscard]] std::string problem_text(const ConvProblem& problem);

/// Numbers of the tensors in the graphs.
enum ConvTensor : std::int64_t {
    kImage = 1,
    kFilter = 2,
    kResult = 3,
    kBias = 4,
    kMiddle = 5,
    kSecondMiddle = 6
};

[[nodiscard]] DnnTensor image_of(const ConvProblem& problem);
[[nodiscard]] DnnTensor filter_of(const ConvProblem& problem);
[[nodiscard]] DnnTensor bias_of(const ConvProblem& problem);
[[nodiscard]] DnnTensor result_of(const ConvProblem& problem);

/// What follows the products within the graph.
enum class ConvTail { kNone, kBias, kBiasRelu, kRelu };

/// Engines with a tail are compiled when their plans are made, in every process: they are tried for
/// outputs of that many bytes. Such an engine saves reading and writing the output once more, 2 x
/// 32 MiB / 3.35 TB/s (declared for an H100) = 20 us of a step; two compilations, taken for a
/// second each (an assumption: no GPU has shown it), are paid back after 100,000 steps. Smaller
/// outputs would not in most jobs.
inline constexpr std::int64_t kFusedFrom = std::int64_t{32} << 20;
[[nodiscard]] bool worth_fusing(const ConvProblem& problem) noexcept;

[[nodiscard]] std::shared_ptr<const DnnGraph> forward_graph(const DnnTarget& target,
                                                            const ConvProblem& problem,
                                                            ConvTail tail);
/// kImage becomes the gradient of the input from kFilter and kResult, the output's gradient.
/// @param adds  the gradient is added to what kImage holds, else assigned
[[nodiscard]] std::shared_ptr<const DnnGraph> data_graph(const DnnTarget& target,
                                                         const ConvProblem& problem,
                                                         bool adds = false);
/// kFilter becomes the gradient of the filters from kImage and kResult.
[[nodiscard]] std::shared_ptr<const DnnGraph> filter_graph(const DnnTarget& target,
                                                           const ConvProblem& problem);

}  // namespace cohort::cuda
