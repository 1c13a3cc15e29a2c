#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/model/trainable_model.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "train/worker/servers/worker_device.hpp"

namespace cohort {

/// Follows a training step and hands its gradient on piece by piece, while backward still runs and
/// each piece is in the cache; counts down to what is final from the end. One object per step. A
/// step that is given up leaves gradient and pieces unfinished; finish() is not called then.
///
/// Of a replica in a device's memory the pieces are copied to the host meanwhile and handed on when
/// they have arrived; or, kDevice, they stay there and are handed on for work on the replica's
/// stream. Ranges that are announced together go as one.
class GradientObserver : public StepObserver {
public:
    /// Where put() finds its pieces.
    enum class Pieces : std::uint8_t { kHost, kDevice };

    /// @param give_up  asked between groups of layers; true gives the step up. None: never
    /// @param goes_on  the mini-batch has begun with another step
    /// @param pieces   means nothing when the replica lies in host memory
    explicit GradientObserver(const StepContext& parts, std::function<bool()> give_up = {},
                              bool goes_on = false, Pieces pieces = Pieces::kHost);

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

    /// Not null: pieces lie in a device's memory, for work on the replica's stream.
    [[nodiscard]] WorkerDevice* device() const noexcept {
        return place_ == Place::kStays ? parts_.device : nullptr;
    }

private:
    /// kHere: the replica lies in host memory. kCopied, kStays: as Pieces say.
    enum class Place : std::uint8_t { kHere, kCopied, kStays };

    void begin_leaving(std::span<const float> batch_state);
    void send_together();
    void take(std::int64_t begin, std::int64_t end, std::span<const float> gradients);
    void take_copies(bool all);

    StepContext parts_;
    std::function<bool()> give_up_;
    Place place_;
    bool begun_ = false;                ///< a range was announced
    bool leaving_ = false;              ///< a piece was there to leave
    GradientCopies::Range together_{};  ///< of a device's memory: announced, nothing done with it
    SteadyClock clock_;
    Clock::Seconds leaving_since_{0};
    std::int64_t low_;                           ///< all from here on has been put
    std::map<std::int64_t, std::int64_t> late_;  ///< put below low_: end -> begin
    double squares_ = 0;
};

/// Passes on what it is told, and knows what was not announced.
class AnnouncedRanges final : public StepObserver {
public:
    /// Both outlive it. @param begun  called then; may be empty
    AnnouncedRanges(StepObserver& inner, const std::function<void()>& begun)
        : inner_(inner), begun_(begun) {}
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        ranges_.emplace_back(begin, end);
        inner_.gradient_ready(begin, end);
    }
    bool should_interrupt() override { return inner_.should_interrupt(); }
    void begun() override {
        if (begun_) {
            begun_();
        }
    }
    /// Announces what is left of `total` floats.
    void announce_rest(std::int64_t total) {
        constexpr std::int64_t kAlign = FlatLayout::kAlignment;
        std::sort(ranges_.rbegin(), ranges_.rend());
        for (const auto& [begin, end] : ranges_) {
            const std::int64_t after = (end + kAlign - 1) / kAlign * kAlign;
            if (after < total) {
                inner_.gradient_ready(after, total);
            }
            total = begin;
        }
        if (total > 0) {
            inner_.gradient_ready(0, total);
        }
    }

private:
    StepObserver& inner_;
    const std::function<void()>& begun_;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
};

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
    RingObserver(const StepContext& parts, AllReduce& exchange, std::span<float> buffer,
                 float weight, std::span<const AddedPush> added = {},
                 std::function<bool()> give_up = {})
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
    explicit AloneObserver(const StepContext& parts, std::function<bool()> give_up = {})
        : GradientObserver(parts, std::move(give_up), false, Pieces::kDevice) {}

protected:
    void put(std::int64_t /*begin*/, std::span<const float> /*gradient*/) override {}
    void put_statistics(std::span<const float> /*batch_state*/) override {}
    void final_from(std::int64_t /*low*/) override {}
};

}  // namespace cohort
