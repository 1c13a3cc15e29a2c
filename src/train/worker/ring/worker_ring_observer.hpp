#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "comm/allreduce/all_reduce.hpp"
#include "train/worker/worker_observer.hpp"

namespace cohort {

/// A gradient with its batch statistics that a member adds to its own in a round.
struct AddedPush {
    std::shared_ptr<const float> values;  ///< as long as the round's buffer
    float weight = 0;
};

/// A training step whose gradient, times this member's weight, goes into a ring's buffer: the
/// parameters' floats, behind them the batch statistics. Gradients of riders are added to it piece
/// by piece, in their order. Where the buffer is the device's memory all of that is done there.
class RingObserver final : public GradientObserver {
public:
    RingObserver(const StepParts& parts, AllReduce& exchange, std::span<float> buffer, float weight,
                 std::span<const AddedPush> added = {}, std::function<bool()> give_up = {})
        : GradientObserver(parts, std::move(give_up), false,
                           exchange.on_device() ? Pieces::kDevice : Pieces::kHost),
          exchange_(exchange),
          buffer_(buffer),
          weight_(weight),
          added_(added) {}

protected:
    void put(std::int64_t begin, std::span<const float> gradient) override;
    void put_statistics(std::span<const float> batch_state) override;
    void final_from(std::int64_t low) override;

private:
    void fill(std::size_t begin, std::span<const float> values);

    AllReduce& exchange_;
    std::span<float> buffer_;
    float weight_;
    std::span<const AddedPush> added_;
    std::int64_t announced_ = -1;  ///< final from here on, as the exchange knows; -1: nothing yet
};

/// A training step of a ring of one: the gradient stays where it is.
class AloneObserver final : public GradientObserver {
public:
    explicit AloneObserver(const StepParts& parts, std::function<bool()> give_up = {})
        : GradientObserver(parts, std::move(give_up), false, Pieces::kDevice) {}

protected:
    void put(std::int64_t /*begin*/, std::span<const float> /*gradient*/) override {}
    void put_statistics(std::span<const float> /*batch_state*/) override {}
    void final_from(std::int64_t /*low*/) override {}
};

}  // namespace cohort
