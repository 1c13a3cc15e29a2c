#include "train/worker/step_window.hpp"

#include <cmath>
#include <numeric>

namespace cohort {

void StepWindow::restart(Clock::Seconds now) {
    *this = StepWindow();
    start_ = now;
}

void StepWindow::add(const StepReport& step) {
    if (step.applied) {
        loss_sum_ += step.result.loss_sum;
        correct_ += step.result.correct;
        samples_ += step.result.samples;
    }
}

double StepWindow::loss() const {
    return samples_ > 0 ? loss_sum_ / static_cast<double>(samples_) : 0;
}

double StepWindow::accuracy() const {
    return samples_ > 0 ? static_cast<double>(correct_) / static_cast<double>(samples_) : 0;
}

double StepWindow::samples_per_s(Clock::Seconds now) const {
    const double time = seconds(now);
    return time > 0 ? static_cast<double>(samples_) / time : 0;
}

double LossScore::add(double loss) {
    constexpr std::size_t kKeep = 128;
    constexpr std::size_t kLeast = 16;
    double score = 0;
    if (last_.size() >= kLeast) {
        const double count = static_cast<double>(last_.size());
        const double mean = std::accumulate(last_.begin(), last_.end(), 0.0) / count;
        double squares = 0;
        for (const double value : last_) {
            squares += (value - mean) * (value - mean);
        }
        const double deviation = std::sqrt(squares / count);
        // A constant loss has a deviation of rounding errors.
        score = deviation > 1e-9 * std::abs(mean) ? (loss - mean) / deviation : 0;
    }
    last_.push_back(loss);
    if (last_.size() > kKeep) {
        last_.pop_front();
    }
    return score;
}

}  // namespace cohort
