#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/gpu/gpu_backend.hpp"

namespace cohort::test {

/// A small network that shows one thing, and the batches it is shown with, in turn.
struct NetworkCase {
    std::string name;  ///< letters, digits and '_'
    std::function<Twin()> make;
    std::vector<std::int64_t> sizes{5, 12};
    /// Of the single-precision limits: what magnifies rounding by its nature (Winograd, deviations
    /// over few values) has more than 1.
    double factor = 1;
    /// Shown in every precision; the others in f32 and bf16 alone.
    bool every_precision = false;
    /// The CPU computes it without Winograd: no more than the limit there, whatever the factor.
    bool direct = false;
};

[[nodiscard]] std::vector<NetworkCase> conv_cases();
/// Every layer on maps [C,H,W] but convolution.
[[nodiscard]] std::vector<NetworkCase> map_cases();
/// Every layer on features [F].
[[nodiscard]] std::vector<NetworkCase> feature_cases();
/// Sequences [T,F], and networks that end in a mean squared error.
[[nodiscard]] std::vector<NetworkCase> sequence_cases();
/// Residual blocks, joints, views (reference_structures.hpp), and networks drawn at random.
[[nodiscard]] std::vector<NetworkCase> structure_cases();

/// Layers of text, and small networks of them.
[[nodiscard]] std::vector<NetworkCase> text_cases();

/// A case on a backend.
struct NetworkParam {
    Backend backend;
    NetworkCase network;
};
std::ostream& operator<<(std::ostream& out, const NetworkParam& param);
/// "cuda_bf16_conv_3x9x7_..."
[[nodiscard]] std::string param_name(const ::testing::TestParamInfo<NetworkParam>& made);
/// Each case on each backend that shows it.
[[nodiscard]] std::vector<NetworkParam> on_backends(const std::vector<NetworkCase>& cases);

}  // namespace cohort::test
