#pragma once

#include <atomic>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "layers/optim/updates.hpp"

namespace cohort {

/// The common part of the optimizers on every device: slots, argument checks, pieces. Derived
/// classes compute the factors of an update; `Updates` runs them on the device.
class RangeOptimizer : public Optimizer {
public:
    RangeOptimizer(const OptimizerOptions& options, std::int64_t size, Device& device,
                   Stream& stream, std::unique_ptr<Updates> updates);

    void begin_update(double fraction, double lr) final;
    void begin_delta(double fraction, double lr) final;
    void apply(std::int64_t offset, std::span<float> theta, std::span<const float> gradient) final;
    void set_momentum(double momentum) final;
    [[nodiscard]] double momentum() const noexcept final { return scalars_.front().value; }
    [[nodiscard]] std::vector<OptimizerSlot> slots() final;
    [[nodiscard]] std::vector<OptimizerScalar> scalars() const final {
        return {scalars_.begin(), scalars_.end()};
    }
    void set_scalar(std::string_view name, double value) final;
    [[nodiscard]] std::int64_t size() const noexcept final { return size_; }

protected:
    [[nodiscard]] std::size_t floats() const noexcept { return static_cast<std::size_t>(size_); }
    void apply_all(std::span<float> theta, std::span<const float> gradient) final;
    /// Adds a zeroed slot and returns its floats, owned by this object.
    float* add_slot(std::string_view name);
    /// Adds a number of the state, owned by this object; the first is what set_momentum() sets.
    double& add_scalar(std::string name, double value);
    /// Kind of weight decay in ranges that have it.
    [[nodiscard]] kernels::Decay decay() const noexcept;
    /// (1 - eta lambda)^f, checked.
    [[nodiscard]] double keep_parameters(double fraction, double lr) const;

    virtual void set_factors(double fraction, double lr) = 0;
    virtual void set_delta_factors(double fraction, double lr) = 0;
    virtual void run(const UpdatePiece& piece) = 0;
    /// Applies a piece of a delta.
    virtual void run_delta(const UpdatePiece& piece) = 0;

    OptimizerOptions options_;
    std::unique_ptr<Updates> updates_;

private:
    /// Checks that an update like this may begin now, and begins it.
    void begin(double fraction, double lr);

    struct Slot {
        std::string_view name;
        Buffer buffer;
    };

    std::int64_t size_;
    Device& device_;
    Stream& stream_;
    std::vector<Slot> slots_;
    std::deque<OptimizerScalar> scalars_;
    bool delta_ = false;                 // the running update is by a delta
    std::atomic<std::int64_t> rest_{0};  // floats of the running update not yet applied
};

/// The optimizer of the options' kind. @param size  floats in its range
[[nodiscard]] std::unique_ptr<Optimizer> make_range_optimizer(const OptimizerOptions& options,
                                                              std::int64_t size, Device& device,
                                                              Stream& stream,
                                                              std::unique_ptr<Updates> updates);

/// Errors: UsageError unless 0 <= value < 1.
void check_decay_rate(std::string_view name, double value);

}  // namespace cohort
