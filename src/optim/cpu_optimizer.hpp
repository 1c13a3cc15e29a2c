#pragma once

#include <atomic>
#include <span>
#include <string_view>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "kernels.hpp"

namespace cohort {

/// What the CPU optimizers share: the decay table of the range, slots, argument checks.
class CpuOptimizer : public Optimizer {
public:
    CpuOptimizer(const OptimizerOptions& options, const FlatLayout& layout, std::int64_t begin,
                 std::int64_t end, Device& device, Stream& stream);

    void begin_update(double fraction, double lr) final;
    void begin_delta(double fraction, double lr) final;
    void apply(std::int64_t offset, std::span<float> theta, std::span<const float> gradient) final;
    [[nodiscard]] std::vector<OptimizerSlot> slots() final;
    [[nodiscard]] std::int64_t size() const noexcept final { return size_; }

protected:
    void apply_all(std::span<float> theta, std::span<const float> gradient) final;
    /// Adds a zeroed slot and returns its floats, owned by this object.
    float* add_slot(std::string_view name);
    [[nodiscard]] const OptimizerOptions& options() const noexcept { return options_; }
    /// How decay enters ranges that have it.
    [[nodiscard]] kernels::Decay decay() const noexcept;
    /// (1 - eta lambda)^f, checked.
    [[nodiscard]] double keep_parameters(double fraction, double lr) const;

    virtual void set_factors(double fraction, double lr) = 0;
    virtual void set_delta_factors(double fraction, double lr) = 0;
    /// Elements [offset, offset + n) of the range; theta and g point at the first.
    virtual void run(kernels::Decay decay, std::int64_t offset, float* theta, const float* g,
                     std::int64_t n) = 0;
    /// The same for a delta.
    virtual void run_delta(std::int64_t offset, float* theta, const float* delta,
                           std::int64_t n) = 0;

private:
    /// Checks that an update like this may begin now, and begins it.
    void begin(double fraction, double lr);

    struct Run {
        std::int64_t begin;
        std::int64_t end;
        bool decay;
    };
    struct Slot {
        std::string_view name;
        Buffer buffer;
    };

    OptimizerOptions options_;
    std::int64_t size_;
    Device& device_;
    Stream& stream_;
    std::vector<Run> runs_;  // tensors of the range without padding, neighbours joined
    std::vector<Slot> slots_;
    bool delta_ = false;                 // the running update is one
    std::atomic<std::int64_t> rest_{0};  // floats of the running update not yet applied
};

[[nodiscard]] std::unique_ptr<Optimizer> make_cpu_sgd(const OptimizerOptions& options,
                                                      const FlatLayout& layout, std::int64_t begin,
                                                      std::int64_t end, Device& device,
                                                      Stream& stream);
[[nodiscard]] std::unique_ptr<Optimizer> make_cpu_adamw(const OptimizerOptions& options,
                                                        const FlatLayout& layout,
                                                        std::int64_t begin, std::int64_t end,
                                                        Device& device, Stream& stream);

/// Errors: UsageError unless 0 <= value < 1.
void check_decay_rate(std::string_view name, double value);

[[noreturn]] void fail_unknown_scalar(std::string_view name);

}  // namespace cohort
