#include "cohort/sched/fire_sum.hpp"

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

std::vector<double> sum_coefficients(const Fire& fire, std::span<const std::int32_t> steps,
                                     std::int64_t reference_batch) {
    std::vector<double> coefficients;
    coefficients.reserve(fire.pushes.size());
    if (fire.work == Work::kGradient) {
        for (const FiredPush& push : fire.pushes) {
            coefficients.push_back(static_cast<double>(push.ticket.samples) * push.weight /
                                   static_cast<double>(fire.samples));
        }
        return coefficients;
    }
    check_invariant(steps.size() == fire.pushes.size(), "local steps of every delta");
    double all = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        coefficients.push_back(static_cast<double>(fire.pushes[i].ticket.samples) / steps[i]);
        all += coefficients[i];
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
        coefficients[i] = coefficients[i] * fire.pushes[i].weight /
                          std::max(all, static_cast<double>(reference_batch));
    }
    return coefficients;
}

std::optional<FireNorms> norms_of(const Fire& fire) {
    const bool plain = std::all_of(fire.pushes.begin(), fire.pushes.end(),
                                   [](const FiredPush& push) { return push.weight == 1; });
    if (fire.work != Work::kGradient || fire.pushes.size() < 2 || !plain) {
        return std::nullopt;
    }
    FireNorms norms;
    const auto count = static_cast<double>(fire.pushes.size());
    for (const FiredPush& push : fire.pushes) {
        norms.squares += push.ticket.gradient_norm * push.ticket.gradient_norm / count;
        norms.inverse_batch += 1 / (static_cast<double>(push.ticket.samples) * count);
    }
    norms.samples = static_cast<double>(fire.samples);
    return norms;
}

}  // namespace cohort
