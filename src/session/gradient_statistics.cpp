#include "session/gradient_statistics.hpp"

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "sched/engine/fire_sum.hpp"
#include "session/training_session.hpp"

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
    const bool turn =
        wish.now_and_then && updates_ - measured_ >= (noise_.count() < kFew ? kOften : kEvery);
    GradientQuestion question{.norm = !asked.norms.empty() && (turn || wish.every_update)};
    if (wish.now_and_then && plain(fire, plan)) {
        const double here = position(fire, before);
        const double distance = kept_ ? here - *kept_ : 0;
        question.compare = kept_ && distance >= kNear && distance <= kFar;
        asked.distance = question.compare ? distance : 0;
        const bool due = updates_ - kept_at_ >= (agreement_.count() < kFew ? kOften : kSeldom);
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

void GradientStatistics::answered(std::int64_t version, const GradientAnswer& answer,
                                  const std::optional<std::vector<double>>& norms) {
    const auto found = asked_.find(version);
    check_invariant(found != asked_.end(), "an answer follows a question");
    std::vector<GradientNorm>& asked = found->second.norms;
    check_invariant(!norms || asked.empty() || asked.size() == norms->size(),
                    "a norm for every push");
    for (std::size_t i = 0; norms && i < asked.size(); ++i) {
        asked[i].squares = (*norms)[i] * (*norms)[i];
    }
    noise_.add(asked, answer.squares);
    if (found->second.distance > 0 && gradient_squares() != 0) {
        agreement_.add(answer.product, noise_.signal(), found->second.distance);
    }
    asked_.erase(found);
}

void GradientStatistics::withdrawn(std::int64_t version, std::int64_t samples, double lr_scale) {
    travelled_ -= lr_scale * static_cast<double>(samples) / reference_batch_;
    const auto asked = asked_.extract(version);
    if (!asked.empty() && asked.mapped().keep) {
        kept_.reset();
    }
}

void GradientAgreement::add(double product, double squares, double distance) noexcept {
    if (!std::isfinite(product)) {
        return;
    }
    ++count_;
    const double rate = std::max(kProductRate, 1.0 / count_);
    squares_ += rate * (squares - squares_);
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

double GradientAgreement::mean() const noexcept {
    return count_ >= kFirstProducts && squares_ > 0 ? product_ / squares_ : 0;
}

double GradientAgreement::fall() const noexcept {
    const double agreement = mean();
    return agreement == 0 ? 0 : std::max((1 - agreement) / distance_, kLeast);
}

GradientMeasurement::GradientMeasurement(const SessionOptions& options, const ModeController& modes,
                                         UpdateEngine& engine, LoadMonitor* load)
    : options_(options),
      modes_(modes),
      engine_(engine),
      load_(load),
      statistics_(options.reference_batch) {
}

GradientStatsPolicy GradientMeasurement::policy() const {
    return {.every_update =
                engine_.plan().lr_unit == SyncPlan::LrUnit::kAdaScale && options_.noise_scale == 0,
            .now_and_then = options_.measure_gradients || modes_.wants_gradients()};
}

void GradientMeasurement::answered(std::int64_t version, const GradientAnswer& answer,
                                   const std::optional<std::vector<double>>& norms) {
    statistics_.answered(version, answer, norms);
    tell();
}

void GradientMeasurement::halves(std::int64_t samples, const std::array<double, 2>& squares,
                                 double norm) {
    statistics_.halves(samples, squares, norm * norm);
    tell();
}

/// Hands on the newest estimates; an estimate stays valid until the next measurement.
void GradientMeasurement::tell() const {
    const GradientFacts facts{.noise_scale = statistics_.noise_scale(),
                              .curvature = statistics_.step_curvature(),
                              .agreement = statistics_.agreement()};
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
