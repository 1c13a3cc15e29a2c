#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "support/layers/reference_check.hpp"

namespace cohort::test {

/// What a test of the engine runs on: the CPU, or a GPU in one of its precisions.
struct Backend {
    const char* name;  ///< "cpu", "cuda_f32", "cuda_tf32", "cuda_bf16", "cuda_f16", "cpu_bf16"
    bool cuda;
    Precision precision;

    /// Errors: those of make_cuda_device.
    [[nodiscard]] std::unique_ptr<Device> device(int threads = 2) const;
    /// A replica of its own device. @param options  all but the precision @param threads  on the
    /// CPU
    [[nodiscard]] std::unique_ptr<OwnedReplica> replica(const Graph& graph,
                                                        ReplicaOptions options = {},
                                                        int threads = 2) const;
    /// Activations have fewer bits than single precision.
    [[nodiscard]] bool is_short() const noexcept {
        return activation_type(precision) != ElementType::kF32;
    }
};
std::ostream& operator<<(std::ostream& out, const Backend& backend);

/// The CPU first, then the GPU in f32, tf32, bf16 and f16, then the CPU in bf16.
[[nodiscard]] const std::vector<Backend>& all_backends();
[[nodiscard]] std::vector<Backend> gpu_backends();
/// For the names of parameterised tests.
[[nodiscard]] std::string backend_name(const ::testing::TestParamInfo<Backend>& made);

/// Skips the running test where the backend needs a GPU and there is none; a build with
/// COHORT_GPU_REQUIRED (preset gpu) fails it instead. Called from SetUp.
void need(const Backend& backend);
void need_gpu();

/// How far results may be from the double-precision reference.
///
/// | backend | measure | limit | why |
/// |---|---|---|---|
/// | cpu | largest element | 2e-5 | single precision, sums of some hundred terms |
/// | cuda_f32 | largest element | 6e-5 | the same, sums in other orders, fast exp and rsqrt |
/// | cuda_tf32 | norm of a tensor | 0.02 | 11 significant bits in products |
/// | cuda_f16 | norm of a tensor | 0.04 | 11 bits in products and in all that is stored |
/// | cuda_bf16 | norm of a tensor | 0.16 | 8 bits in both |
/// | cpu_bf16 | norm of a tensor | 0.0078 | two roundings of that |
///
/// Relative to the tensor compared. What goes through many roundings may be off by what the
/// reference itself is off by when it rounds like that, with room (RoughReferences). Both hold only
/// where no element is so close to the kink of a ReLU or of a maximum that rounding carries it
/// over: one element of 540 on the other side doubles a gradient of batch norm, in one of a hundred
/// equally good computations. So parameters and samples are moved away from kinks first
/// (clear_kinks), by the reference alone.
///
/// The limits of GPUs are from when they were not: there the norm was off by about sqrt(p) with a
/// share p of elements on the other side. They may be as tight as the CPU's when a GPU has been
/// seen to hold them. tests/gpu/tolerance_test.cpp shows how the limits lie to the types'
/// roundings.
/// @param factor  of the network, see NetworkCase
[[nodiscard]] CheckOptions limits(const Backend& backend, double factor = 1);

/// For CheckOptions::roundings: that of a short type, then those beside it; none for single
/// precision.
[[nodiscard]] std::vector<Rounding> roundings_of(Precision precision);

}  // namespace cohort::test
