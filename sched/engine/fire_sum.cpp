#include "sched/engine/fire_sum.hpp"

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

double update_fraction(const SyncPlan& plan, Work work, std::int64_t samples,
                       std::int64_t reference_batch, double noise_scale) noexcept {
    const auto count = static_cast<double>(samples);
    const auto batch = static_cast<double>(reference_batch);
    const double f = count / batch;
    if (work == Work::kGradient && plan.lr_unit == SyncPlan::LrUnit::kPublished) {
        return count / static_cast<double>(plan.published_unit);
    }
    if (work == Work::kGradient && plan.lr_unit == SyncPlan::LrUnit::kAdaScale && noise_scale > 0) {
        return f * (noise_scale + batch) / (noise_scale + f * batch);
    }
    return f;
}

std::vector<GradientNorm> norms_of(const Fire& fire, const SyncPlan& plan) {
    const bool alike = std::ranges::all_of(fire.pushes, [&fire](const FiredPush& push) {
        return push.weight == 1 && push.ticket.version == fire.pushes.front().ticket.version;
    });
    std::vector<GradientNorm> norms;
    if (fire.work != Work::kGradient || fire.pushes.size() < 2 || !alike ||
        plan.delay_compensation > 0) {
        return norms;
    }
    for (const FiredPush& push : fire.pushes) {
        norms.push_back({.squares = push.ticket.gradient_norm * push.ticket.gradient_norm,
                         .samples = static_cast<double>(push.ticket.samples)});
    }
    return norms;
}

}  // namespace cohort
