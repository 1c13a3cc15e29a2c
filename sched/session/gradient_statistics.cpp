#include "sched/session/gradient_statistics.hpp"

#include <utility>

#include "cohort/core/error.hpp"
#include "sched/engine/fire_sum.hpp"
#include "sched/session/training_session.hpp"

namespace cohort {

bool GradientStatistics::ask(const Fire& fire, const SyncPlan& plan,
                             const GradientStatsPolicy& wish) {
    ++updates_;
    if (!wish.any()) {
        return false;
    }
    std::vector<GradientNorm> norms = norms_of(fire, plan);
    alike_ = norms.empty() ? alike_ : updates_;
    const bool turn =
        wish.now_and_then && updates_ - measured_ >= (noise_.count() < kFew ? kOften : kEvery);
    measured_ = turn ? updates_ : measured_;
    const bool asked = !norms.empty() && (turn || wish.every_update);
    if (asked) {
        asked_[fire.version] = std::move(norms);
    }
    return asked;
}

void GradientStatistics::answered(std::int64_t version, double squares,
                                  const std::optional<std::vector<double>>& norms) {
    auto asked = asked_.extract(version);
    check_invariant(!asked.empty(), "an answer follows a question");
    std::vector<GradientNorm>& pushes = asked.mapped();
    check_invariant(!norms || pushes.size() == norms->size(), "a norm for every push");
    for (std::size_t i = 0; norms && i < pushes.size(); ++i) {
        pushes[i].squares = (*norms)[i] * (*norms)[i];
    }
    noise_.add(pushes, squares);
}

bool GradientStatistics::halve(const SyncPlan& plan, std::int64_t samples,
                               const GradientStatsPolicy& wish) {
    ++leases_;
    const bool alone = updates_ - alike_ > kEvery;
    if (!wish.any() || !alone || leases_ < kEvery || plan.work != Work::kGradient || samples < 2) {
        return false;
    }
    leases_ = 0;
    return true;
}

void GradientStatistics::halves(std::int64_t samples, const std::array<double, 2>& squares,
                                double mean_squares) {
    const std::int64_t first = first_half(samples);
    const std::array<GradientNorm, 2> norms{
        {{.squares = squares[0], .samples = static_cast<double>(first)},
         {.squares = squares[1], .samples = static_cast<double>(samples - first)}}};
    noise_.add(norms, mean_squares);
}

GradientMeasurement::GradientMeasurement(const SessionOptions& options, const ModeController& modes,
                                         UpdateEngine& engine, LoadMonitor* load)
    : options_(options), modes_(modes), engine_(engine), load_(load) {
}

GradientStatsPolicy GradientMeasurement::policy() const {
    return {.every_update =
                engine_.plan().lr_unit == SyncPlan::LrUnit::kAdaScale && options_.noise_scale == 0,
            .now_and_then = options_.measure_gradients || modes_.wants_gradients()};
}

void GradientMeasurement::answered(std::int64_t version, double squares,
                                   const std::optional<std::vector<double>>& norms) {
    statistics_.answered(version, squares, norms);
    tell();
}

void GradientMeasurement::halves(std::int64_t samples, const std::array<double, 2>& squares,
                                 double norm) {
    statistics_.halves(samples, squares, norm * norm);
    tell();
}

/// Hands on the newest estimate; it stays valid until the next measurement.
void GradientMeasurement::tell() const {
    const GradientFacts facts{.noise_scale = statistics_.noise_scale()};
    if (facts.noise_scale > 0 && policy().every_update) {
        engine_.set_noise_scale(facts.noise_scale);
    }
    if (load_ != nullptr) {
        load_->measured(facts);
    }
    if (options_.observer != nullptr) {
        options_.observer->measured(facts);
    }
}

}  // namespace cohort
