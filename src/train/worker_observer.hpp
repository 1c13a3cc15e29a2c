#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "cohort/core/clock.hpp"
#include "cohort/model/replica.hpp"
#include "injection.hpp"

namespace cohort {

/// Follows a training step and hands its gradient on piece by piece, while backward still runs and
/// each piece is in the cache; counts down to what is final from the end. One object per step. A
/// step that is given up leaves gradient and pieces unfinished; finish() is not called then.
///
/// On a GPU the pieces are copied to the host when the step is over.
class GradientObserver : public StepObserver {
public:
    /// @param give_up  asked between groups of layers; true gives the step up. None: never
    /// @param goes_on  the mini-batch has begun with another step
    GradientObserver(Replica& replica, Injector& injector, std::function<bool()> give_up = {},
                     bool goes_on = false);

    void gradient_ready(std::int64_t begin, std::int64_t end) final;
    bool should_interrupt() final;

    /// After train_step: everything is final. Hands on what is left.
    void finish();
    /// After finish(): of the whole gradient. Finite exactly when all of it is.
    [[nodiscard]] double sum_of_squares() const noexcept { return squares_; }
    /// After finish(): seconds since the first piece was there to leave.
    [[nodiscard]] double leaving_s() const;

protected:
    /// Take these floats of the gradient, which begin at `begin` of the flat buffer. Pieces do not
    /// overlap and cover the buffer, padding included.
    virtual void put(std::int64_t begin, std::span<const float> gradient) = 0;
    /// Take the batch statistics; once, before the first put().
    virtual void put_statistics(std::span<const float> batch_state) = 0;
    /// Everything from `low` to the end has been put.
    virtual void final_from(std::int64_t low) = 0;

private:
    void take(std::int64_t begin, std::int64_t end, std::span<const float> gradients);

    Replica& replica_;
    Injector& injector_;
    std::function<bool()> give_up_;
    bool on_host_;
    bool begun_ = false;
    SteadyClock clock_;
    Clock::Seconds begun_at_{0};
    std::int64_t low_;                           ///< all from here on has been put
    std::map<std::int64_t, std::int64_t> late_;  ///< put below low_: end -> begin
    double squares_ = 0;
};

}  // namespace cohort
