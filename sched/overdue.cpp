#include "overdue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

constexpr double kLate = 1.5;      ///< times the usual
constexpr double kLenient = 1.25;  ///< times as long, after a false alarm
constexpr double kMostLenient = 6;
constexpr double kNoise = 10;        ///< mean distances beyond the usual
constexpr double kLater = 4.0 / 3;   ///< times as long, for another look
constexpr int kMostSteps = 20;       ///< then it has lasted some hundred times as long
constexpr double kNearly = 0.8;      ///< of what is allowed: others are late too
constexpr double kLeastUsual = 0.5;  ///< of the own time: so much of it is the iteration's
constexpr double kAgain = 2;         ///< times what has elapsed: as long again
constexpr double kRounding = 1e-6;   ///< of seconds, as they are added up

/// @return 0: not late, else one more than the number of times that it is later by a third
int step_of(double lasted_s, double allowed_s) {
    const double times = lasted_s * (1 + kRounding) / allowed_s;
    if (times < 1) {
        return 0;
    }
    return std::min(1 + static_cast<int>(std::log(times) / std::log(kLater) + kRounding),
                    kMostSteps);
}

double step_s(int step, double allowed_s) {
    return step == 1 ? allowed_s : allowed_s * std::pow(kLater, step - 1);
}

}  // namespace

double OverdueWorker::total_s(double slowdown) const noexcept {
    const double usually_s = slowdown * usual_s;
    return usually_s > least_s ? usually_s : kAgain * least_s;
}

void OverdueWatch::expect(LoadEstimate usual, std::vector<int> live, std::vector<Sureness> sure) {
    usual_ = std::move(usual);
    live_ = std::move(live);
    sure_ = std::move(sure);
    seen_.resize(sure_.size());
}

void OverdueWatch::learn(bool late) {
    leniency_ = late ? 1 : std::min(leniency_ * kLenient, kMostLenient);
}

bool OverdueWatch::judges(const RunningIterations& running, int worker) const {
    return sure_[static_cast<std::size_t>(worker)].known && running.begun_s(worker).has_value();
}

OverdueWatch::Limit OverdueWatch::limit(const RunningIterations& running, int worker) const {
    const auto i = static_cast<std::size_t>(worker);
    const double own_s = usual_.own_s(i, running.samples(worker));
    const double usual_s = std::max(own_s + running.beside_s(worker), kLeastUsual * own_s);
    const double varies_s = sure_[i].noise * own_s + running.beside_noise_s(worker);
    return {.usual_s = usual_s,
            .allowed_s = std::max(leniency_ * kLate * usual_s, usual_s + kNoise * varies_s)};
}

std::vector<OverdueWorker> OverdueWatch::look(const RunningIterations& running, double now_s) {
    std::vector<OverdueWorker> overdue;
    std::size_t late = 0;
    for (const int worker : live_) {
        if (!judges(running, worker)) {
            continue;
        }
        const double begun_s = *running.begun_s(worker);
        const double lasted_s = now_s - begun_s;
        const auto [usual_s, allowed_s] = limit(running, worker);
        const int step = step_of(lasted_s, allowed_s);
        seen_[static_cast<std::size_t>(worker)] = {.begun_s = begun_s, .step = step};
        late += lasted_s > kNearly * allowed_s ? 1 : 0;
        if (step > 0) {
            overdue.push_back({.worker = worker,
                               .usual_s = usual_s,
                               .lasted_s = lasted_s,
                               .least_s = step_s(step, allowed_s)});
        }
    }
    if (2 * late > live_.size()) {
        overdue.clear();
    }
    return overdue;
}

std::optional<double> OverdueWatch::wake_at(const RunningIterations& running) const {
    std::optional<double> first_s;
    for (const int worker : live_) {
        if (!judges(running, worker)) {
            continue;
        }
        const double begun_s = *running.begun_s(worker);
        const Seen& seen = seen_[static_cast<std::size_t>(worker)];
        const int step = seen.begun_s == begun_s ? seen.step : 0;
        if (step == kMostSteps) {
            continue;
        }
        const double at_s = begun_s + step_s(step + 1, limit(running, worker).allowed_s);
        first_s = first_s ? std::min(*first_s, at_s) : at_s;
    }
    return first_s;
}

std::string describe(const std::vector<OverdueWorker>& overdue) {
    std::string text;
    for (const OverdueWorker& one : overdue) {
        text += fmt::format("{}worker {} is overdue: {:.1f} times its usual time",
                            text.empty() ? "" : ", ", one.worker, one.lasted_s / one.usual_s);
    }
    return text;
}

}  // namespace cohort
