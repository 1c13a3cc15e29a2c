#include "session/gradient_statistics.hpp"

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "sched/engine/fire_sum.hpp"

namespace cohort {
namespace {

constexpr double kNear = 0.9;  ///< reference batches between two gradients that are compared
constexpr double kFar = 3;
constexpr int kFirstProducts = 5;     ///< single products say next to nothing
constexpr double kProductRate = 0.1;  ///< of the newest one, in means
constexpr double kLeast = 1e-6;       ///< of curvature, which is not 0 once it is known

/// The sum is the mean gradient of its samples.
bool plain(const Fire& fire, const SyncPlan& plan) {
    return fire.work == Work::kGradient && plan.delay_compensation == 0 &&
           std::all_of(fire.pushes.begin(), fire.pushes.end(),
                       [](const FiredPush& push) { return push.weight == 1; });
}

/// Of the parameters that an update was computed on, the mean over its samples.
double position(const Fire& fire, double travelled) {
    double lag = 0;
    for (const FiredPush& push : fire.pushes) {
        lag += push.lag * static_cast<double>(push.ticket.samples);
    }
    return travelled - fire.lr_scale * lag / static_cast<double>(fire.samples);
}

}  // namespace

GradientQuestion GradientStatistics::ask(const Fire& fire, const SyncPlan& plan,
                                         const GradientStatsPolicy& wish) {
    ++updates_;
    const double before = travelled_;
    travelled_ += fire.lr_scale * static_cast<double>(fire.samples) / reference_batch_;
    if (!wish.any()) {
        return {};
    }
    Asked asked{.norms = norms_of(fire, plan)};
    alike_ = asked.norms.empty() ? alike_ : updates_;
    const bool turn = wish.now_and_then && updates_ - measured_ >= kEvery;
    GradientQuestion question{.norm = !asked.norms.empty() && (turn || wish.every_update)};
    if (wish.now_and_then && plain(fire, plan)) {
        const double here = position(fire, before);
        const double distance = kept_ ? here - *kept_ : 0;
        question.compare = kept_ && distance >= kNear && distance <= kFar;
        asked.distance = question.compare ? distance : 0;
        const bool due = updates_ - kept_at_ >= (compared_ < kFew ? kEvery : kSeldom);
        question.keep = due && !question.compare && (!kept_ || distance > kFar);
        if (question.compare) {
            kept_.reset();
        } else if (question.keep) {
            kept_ = here;
            kept_at_ = updates_;
        }
    }
    measured_ = turn ? updates_ : measured_;
    asked.keep = question.keep;
    asked.norms.resize(question.norm ? asked.norms.size() : 0);
    if (question.any()) {
        asked_[fire.version] = std::move(asked);
    }
    return question;
}

void GradientStatistics::answered(std::int64_t version, const GradientAnswer& answer) {
    const auto found = asked_.find(version);
    check_invariant(found != asked_.end(), "an answer follows a question");
    noise_.add(found->second.norms, answer.squares);
    if (found->second.distance > 0) {
        compare_with_kept(answer.product, found->second.distance);
    }
    asked_.erase(found);
}

void GradientStatistics::answered(std::int64_t version, const GradientAnswer& answer,
                                  const std::vector<double>& norms) {
    std::vector<GradientNorm>& asked = asked_.at(version).norms;
    check_invariant(asked.empty() || asked.size() == norms.size(), "a norm for every push");
    for (std::size_t i = 0; i < asked.size(); ++i) {
        asked[i].squares = norms[i] * norms[i];
    }
    answered(version, answer);
}

void GradientStatistics::withdrawn(std::int64_t version, std::int64_t samples, double lr_scale) {
    travelled_ -= lr_scale * static_cast<double>(samples) / reference_batch_;
    const auto asked = asked_.extract(version);
    if (!asked.empty() && asked.mapped().keep) {
        kept_.reset();
    }
}

void GradientStatistics::compare_with_kept(double product, double distance) noexcept {
    if (!std::isfinite(product) || gradient_squares() == 0) {
        return;
    }
    ++compared_;
    const double rate = std::max(kProductRate, 1.0 / compared_);
    squares_ += rate * (noise_.signal() - squares_);
    product_ += rate * (product - product_);
    distance_ += rate * (distance - distance_);
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

double GradientStatistics::gradient_squares() const noexcept {
    return noise_.count() >= kFirstProducts ? std::max(noise_.signal(), 0.0) : 0;
}

double GradientStatistics::agreement() const noexcept {
    return compared_ >= kFirstProducts && squares_ > 0 ? product_ / squares_ : 0;
}

double GradientStatistics::step_curvature() const noexcept {
    const double agreement = this->agreement();
    return agreement == 0 ? 0 : std::max((1 - agreement) / distance_, kLeast);
}

}  // namespace cohort
