#include "layers/optim/look_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "core/system/simd.hpp"

namespace cohort {
namespace detail {

COHORT_SIMD_CLONES void subtract_scaled(const float* theta, const float* u, float factor,
                                        float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = theta[i] - factor * u[i];
    }
}

/// Numbers of adamw's steps.
struct StepFactors {
    float factor = 0;
    float first_scale = 1;
    float root_scale = 1;
    float epsilon = 0;
};

COHORT_SIMD_CLONES void subtract_steps(const float* theta, const float* first, const float* second,
                                       const StepFactors& factors, float* out, std::size_t n) {
    const StepFactors k = factors;
    for (std::size_t i = 0; i < n; ++i) {
        const float mean = first[i] * k.first_scale;
        const float root = std::sqrt(second[i]) * k.root_scale;
        const float size = std::fabs(mean);
        out[i] = theta[i] - k.factor * mean / ((root < size ? size : root) + k.epsilon);
    }
}

}  // namespace detail

LookAhead LookAhead::part(std::size_t at, std::size_t n) const {
    LookAhead made = *this;
    made.first = first.empty() ? first : first.subspan(at, n);
    made.second = second.empty() ? second : second.subspan(at, n);
    return made;
}

double look_ahead_factor(double lr, double momentum, double lag) {
    if (momentum == 0 || lag == 0) {
        return 0;
    }
    const double left = 1 - momentum;
    return lr * momentum * -std::expm1(lag * std::log(momentum)) / (left * left);
}

void look_ahead(std::span<const float> theta, const LookAhead& state, double lr, double lag,
                std::span<float> out) {
    const std::size_t n = theta.size();
    const auto fits = [n](std::span<const float> slot) { return slot.empty() || slot.size() == n; };
    if (out.size() != n || !fits(state.first) || !fits(state.second)) {
        fail<ShapeError>({.where = "look_ahead",
                          .what = "buffers of different sizes",
                          .expected = fmt::format("{} floats each", n),
                          .got = fmt::format("first {}, second {}, result {}", state.first.size(),
                                             state.second.size(), out.size())});
    }
    const double factor = look_ahead_factor(lr, state.momentum, lag);
    if (state.first.empty() || factor == 0) {
        if (out.data() != theta.data()) {
            std::copy(theta.begin(), theta.end(), out.begin());
        }
    } else if (state.second.empty()) {
        detail::subtract_scaled(theta.data(), state.first.data(), static_cast<float>(factor),
                                out.data(), n);
    } else {
        detail::subtract_steps(theta.data(), state.first.data(), state.second.data(),
                               {.factor = static_cast<float>(factor * (1 - state.momentum)),
                                .first_scale = static_cast<float>(state.first_scale),
                                .root_scale = static_cast<float>(state.root_scale),
                                .epsilon = static_cast<float>(state.epsilon)},
                               out.data(), n);
    }
}

}  // namespace cohort
