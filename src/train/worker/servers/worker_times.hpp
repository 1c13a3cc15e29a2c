#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "cohort/core/clock.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Where a worker of servers spends its time: everything between two ends of backward goes to
/// exactly one part of WorkerTimes.
class IterationTimes {
public:
    /// @param clock  outlives it
    explicit IterationTimes(const Clock& clock) : clock_(clock), last_(clock.now()) {}

    /// The time until now belongs to no iteration.
    void skip() { (void)lap(); }
    /// Parameters are in use that permit a mini-batch. @param first_s  ago the first of them
    /// were announced
    void parameters(double first_s) {
        times_.exchange_s = lap() + std::exchange(exchange_s_, 0);
        times_.pull_s = std::clamp(first_s, 0.0, times_.exchange_s);
    }
    /// Waiting for a lease has ended.
    void leased() { lease_s_ += lap(); }
    /// The mini-batch is loaded.
    void loaded() { input_s_ += lap(); }
    /// There is memory for the push.
    void placed() { buffer_s_ += lap(); }
    /// The mini-batch in hand was taken back: loading it was waiting for another.
    void dropped() { lease_s_ += lap() + std::exchange(input_s_, 0) + std::exchange(buffer_s_, 0); }
    /// Forward begins.
    void begin() {
        (void)lap();
        times_.lease_s = std::exchange(lease_s_, 0);
        times_.input_s = std::exchange(input_s_, 0);
        times_.buffer_s = std::exchange(buffer_s_, 0);
    }
    /// Backward has ended. @param leaving_s  since the first of the gradient was there to leave
    /// @param own_s  of the time since begin() computed, by the device's clock; what is left is the
    /// beginning of the exchange. Nothing: all of it
    void computed(double leaving_s, std::optional<double> own_s = std::nullopt) {
        const double all_s = lap();
        times_.compute_s = own_s ? std::clamp(*own_s, 0.0, all_s) : all_s;
        times_.leaving_s = own_s ? std::min(leaving_s, times_.compute_s) : leaving_s;
        exchange_s_ = all_s - times_.compute_s;
    }
    /// The same when only a part of that time was computing.
    void computed_for(double compute_s) {
        (void)lap();
        times_.compute_s = compute_s;
        times_.leaving_s = 0;
    }

    [[nodiscard]] const WorkerTimes& times() const noexcept { return times_; }

private:
    /// Seconds since the last call.
    double lap() {
        const Clock::Seconds before = std::exchange(last_, clock_.now());
        return (last_ - before).count();
    }

    const Clock& clock_;
    Clock::Seconds last_;
    WorkerTimes times_;
    double lease_s_ = 0;  ///< of the iteration to come
    double input_s_ = 0;
    double buffer_s_ = 0;
    double exchange_s_ = 0;
};

}  // namespace cohort
