#pragma once

#include <cstdint>
#include <span>

#include "worker_observer.hpp"
#include "worker_rounds.hpp"

namespace cohort {

/// to = factor * from, rounded once per element. Equal sizes.
void scale_into(std::span<float> to, std::span<const float> from, float factor) noexcept;

/// A training step whose gradient, times this member's weight, goes into a ring's buffer: the
/// parameters' floats, behind them the batch statistics.
class RingObserver final : public GradientObserver {
public:
    RingObserver(Replica& replica, Injector& injector, RoundExchange& exchange,
                 std::span<float> buffer, float weight)
        : GradientObserver(replica, injector),
          exchange_(exchange),
          buffer_(buffer),
          weight_(weight) {}

protected:
    void put(std::int64_t begin, std::span<const float> gradient) override;
    void put_statistics(std::span<const float> batch_state) override;
    void final_from(std::int64_t low) override;

private:
    RoundExchange& exchange_;
    std::span<float> buffer_;
    float weight_;
    std::int64_t announced_ = -1;  ///< final from here on, as the exchange knows; -1: nothing yet
};

/// A training step of a ring of one: the gradient stays where it is.
class AloneObserver final : public GradientObserver {
public:
    using GradientObserver::GradientObserver;

protected:
    void put(std::int64_t /*begin*/, std::span<const float> /*gradient*/) override {}
    void put_statistics(std::span<const float> /*batch_state*/) override {}
    void final_from(std::int64_t /*low*/) override {}
};

}  // namespace cohort
