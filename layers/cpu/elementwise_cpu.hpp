#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cohort/core/thread_team.hpp"

// Tensors of std::uint16_t are bfloat16: computed in single precision, rounded when they are
// stored.
namespace cohort {

/// y = min(max(x, 0), bound); the bound is positive, a bfloat16 too, and may be infinite.
void relu_forward(const float* x, float bound, float* y, std::int64_t count);
void relu_forward(const std::uint16_t* x, float bound, std::uint16_t* y, std::int64_t count);
void relu_in_place(float* y, std::int64_t count);
void relu_in_place(std::uint16_t* y, std::int64_t count);
/// gradient = y > 0 ? gradient : 0, in place; y is the ReLU's output.
void relu_mask(const float* y, float* gradient, std::int64_t count);
void relu_mask(const std::uint16_t* y, std::uint16_t* gradient, std::int64_t count);
/// gradient_out = 0 < y < bound ? gradient : 0.
void relu_backward(const float* y, float bound, const float* gradient, float* gradient_out,
                   std::int64_t count);
void relu_backward(const std::uint16_t* y, float bound, const std::uint16_t* gradient,
                   std::uint16_t* gradient_out, std::int64_t count);
/// y = a + b, then ReLU when asked.
void add_forward(const float* a, const float* b, bool relu, float* y, std::int64_t count);
void add_forward(const std::uint16_t* a, const std::uint16_t* b, bool relu, std::uint16_t* y,
                 std::int64_t count);
/// y = scale a + b.
void scaled_sum(float scale, const float* a, const float* b, float* y, std::int64_t count);
/// to += from.
void accumulate(float* to, const float* from, std::int64_t count);
void accumulate(std::uint16_t* to, const std::uint16_t* from, std::int64_t count);
/// y[n, f] += bias[f], then ReLU when asked.
void bias_forward(float* y, const float* bias, std::int64_t samples, std::int64_t features,
                  bool relu);
/// sums[f] += sum over n of gradient[n, f].
void bias_backward(const float* gradient, float* sums, std::int64_t samples, std::int64_t features);

/// Work on fewer bytes than this is done by the caller alone: waking a team costs more.
constexpr std::size_t kWorthSharing = std::size_t{256} << 10;

/// Per-member sums of a gradient, one after the other; the first member's receives the total.
/// Members are added in their order, those with `used` unset are left out, so the result does not
/// depend on timing. To be called outside of team.run().
/// @param floats  in each member's sums, a multiple of 16
void add_member_sums(ThreadTeam& team, float* sums, std::size_t floats, std::span<const char> used);

}  // namespace cohort
