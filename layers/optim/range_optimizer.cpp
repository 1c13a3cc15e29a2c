#include "layers/optim/range_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"

namespace cohort {

void check_decay_rate(std::string_view name, double value) {
    if (!(value >= 0 && value < 1)) {
        fail<UsageError>({.where = "optimizer",
                          .what = fmt::format("{} out of range", name),
                          .expected = "0 <= value < 1",
                          .got = fmt::format("{}", value)});
    }
}

RangeOptimizer::RangeOptimizer(const OptimizerOptions& options, std::int64_t size, Device& device,
                               Stream& stream, std::unique_ptr<Updates> updates)
    : options_(options),
      updates_(std::move(updates)),
      size_(size),
      device_(device),
      stream_(stream) {
}

float* RangeOptimizer::add_slot(std::string_view name) {
    const auto bytes = static_cast<std::size_t>(size_) * sizeof(float);
    Slot& slot =
        slots_.emplace_back(Slot{name, device_.allocate(std::max<std::size_t>(bytes, 64))});
    stream_.fill_zero(slot.buffer.data(), bytes);
    stream_.synchronize();
    return slot.buffer.floats();
}

std::vector<OptimizerSlot> RangeOptimizer::slots() {
    std::vector<OptimizerSlot> result;
    for (Slot& slot : slots_) {
        result.push_back(
            {std::string(slot.name), {slot.buffer.floats(), static_cast<std::size_t>(size_)}});
    }
    return result;
}

double& RangeOptimizer::add_scalar(std::string name, double value) {
    return scalars_.emplace_back(OptimizerScalar{std::move(name), value}).value;
}

void RangeOptimizer::set_momentum(double momentum) {
    check_decay_rate(scalars_.front().name, momentum);
    scalars_.front().value = momentum;
}

void RangeOptimizer::set_scalar(std::string_view name, double value) {
    const auto found = std::find_if(scalars_.begin(), scalars_.end(),
                                    [&](const OptimizerScalar& own) { return own.name == name; });
    if (found == scalars_.end()) {
        fail<UsageError>({.where = "optimizer state",
                          .what = "this optimizer has no such number",
                          .got = name,
                          .hint = "the optimizer that wrote the state"});
    }
    if (found == scalars_.begin()) {
        set_momentum(value);
    } else {
        found->value = value;
    }
}

kernels::Decay RangeOptimizer::decay() const noexcept {
    if (options_.weight_decay == 0) {
        return kernels::Decay::kNone;
    }
    return options_.decoupled ? kernels::Decay::kDecoupled : kernels::Decay::kCoupled;
}

double RangeOptimizer::keep_parameters(double fraction, double lr) const {
    if (decay() != kernels::Decay::kDecoupled) {
        return 1;
    }
    const double shrink = lr * options_.weight_decay;
    if (!(shrink < 1)) {
        fail<UsageError>({.where = "optimizer",
                          .what = "learning rate times decoupled weight decay is too large",
                          .expected = "less than 1",
                          .got = fmt::format("{}", shrink)});
    }
    return std::exp(fraction * std::log1p(-shrink));
}

void RangeOptimizer::begin_update(double fraction, double lr) {
    begin(fraction, lr);
    set_factors(fraction, lr);
    delta_ = false;
}

void RangeOptimizer::begin_delta(double fraction, double lr) {
    begin(fraction, lr);
    set_delta_factors(fraction, lr);
    delta_ = true;
}

void RangeOptimizer::begin(double fraction, double lr) {
    if (!(fraction > 0) || !std::isfinite(fraction) || !(lr >= 0) || !std::isfinite(lr)) {
        fail<UsageError>({.where = "optimizer",
                          .what = "an update that cannot be applied",
                          .expected = "fraction > 0 and learning rate >= 0",
                          .got = fmt::format("fraction {}, learning rate {}", fraction, lr)});
    }
    const std::int64_t rest = rest_;
    if (rest != 0 && rest != size_) {
        fail<UsageError>({.where = "optimizer",
                          .what = "an update begins before the one before it is complete",
                          .expected = "pieces that cover the range",
                          .got = fmt::format("{} of {} floats not applied", rest, size_)});
    }
    rest_ = size_;
}

void RangeOptimizer::apply_all(std::span<float> theta, std::span<const float> gradient) {
    updates_->share(size_, [&](std::int64_t begin, std::int64_t end) {
        const auto at = static_cast<std::size_t>(begin);
        const auto count = static_cast<std::size_t>(end - begin);
        apply(begin, theta.subspan(at, count), gradient.subspan(at, count));
    });
}

void RangeOptimizer::apply(std::int64_t offset, std::span<float> theta,
                           std::span<const float> gradient) {
    const auto count = static_cast<std::int64_t>(theta.size());
    if (theta.size() != gradient.size() || offset < 0 || offset + count > size_) {
        fail<ShapeError>({.where = "optimizer",
                          .what = "a piece that does not fit",
                          .expected = fmt::format("equal sizes inside [0, {})", size_),
                          .got = fmt::format("{} parameters and {} gradients at {}", count,
                                             gradient.size(), offset)});
    }
    if (rest_.fetch_sub(count, std::memory_order_relaxed) < count) {
        fail<UsageError>({.where = "optimizer",
                          .what = "more pieces than an update has",
                          .expected = "each part of the range once after begin_update",
                          .got = fmt::format("{} floats at {} besides the whole", count, offset)});
    }
    const UpdatePiece piece{offset, count, theta.data(), gradient.data()};
    if (delta_) {
        run_delta(piece);
    } else {
        run(piece);
    }
}

}  // namespace cohort
