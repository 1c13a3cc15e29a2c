#include "cohort/optim/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/tensor/cpu_team.hpp"
#include "cpu_optimizer.hpp"
#include "cuda_optim.hpp"

namespace cohort {
namespace {

void check_options(const OptimizerOptions& options) {
    check_decay_rate("momentum", options.momentum);
    check_decay_rate("beta1", options.beta1);
    check_decay_rate("beta2", options.beta2);
    if (!(options.weight_decay >= 0) || !std::isfinite(options.weight_decay)) {
        fail<UsageError>({.where = "optimizer",
                          .what = "weight decay out of range",
                          .expected = "a number >= 0",
                          .got = fmt::format("{}", options.weight_decay)});
    }
    if (!(options.epsilon > 0) || !std::isfinite(options.epsilon)) {
        fail<UsageError>({.where = "optimizer",
                          .what = "epsilon out of range",
                          .expected = "a number > 0",
                          .got = fmt::format("{}", options.epsilon)});
    }
    if (options.nesterov && options.kind != OptimizerKind::kSgd) {
        fail<UsageError>({.where = "optimizer",
                          .what = "Nesterov momentum belongs to sgd",
                          .got = to_text(options.kind)});
    }
}

void check_range(const FlatLayout& layout, std::int64_t begin, std::int64_t end) {
    if (begin < 0 || end < begin || end > layout.total()) {
        fail<ShapeError>({.where = "optimizer",
                          .what = "range outside the parameter buffer",
                          .expected = fmt::format("a part of [0, {})", layout.total()),
                          .got = fmt::format("[{}, {})", begin, end)});
    }
}

}  // namespace

OptimizerKind parse_optimizer_kind(std::string_view text) {
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        if (text == to_text(kind)) {
            return kind;
        }
    }
    fail<UsageError>({.where = "optimizer",
                      .what = "unknown optimizer",
                      .expected = "sgd or adamw",
                      .got = text});
}

OptimizerOptions optimizer_options(std::string_view kind, double momentum, bool nesterov,
                                   double weight_decay) {
    const OptimizerKind parsed = parse_optimizer_kind(kind);
    return {.kind = parsed,
            .momentum = momentum,
            .nesterov = nesterov,
            .weight_decay = weight_decay,
            .decoupled = parsed == OptimizerKind::kAdamW};
}

std::string_view to_text(OptimizerKind kind) noexcept {
    return kind == OptimizerKind::kSgd ? "sgd" : "adamw";
}

void check_decay_rate(std::string_view name, double value) {
    if (!(value >= 0 && value < 1)) {
        fail<UsageError>({.where = "optimizer",
                          .what = fmt::format("{} out of range", name),
                          .expected = "0 <= value < 1",
                          .got = fmt::format("{}", value)});
    }
}

void fail_unknown_scalar(std::string_view name) {
    fail<UsageError>({.where = "optimizer state",
                      .what = "this optimizer has no such number",
                      .got = name,
                      .hint = "the optimizer that wrote the state"});
}

void Optimizer::update(std::span<float> theta, std::span<const float> gradient, double fraction,
                       double lr) {
    if (static_cast<std::int64_t>(theta.size()) != size() || gradient.size() != theta.size()) {
        fail<ShapeError>({.where = "optimizer",
                          .what = "parameters or gradient of another size",
                          .expected = fmt::format("{} floats", size()),
                          .got = fmt::format("{} and {}", theta.size(), gradient.size())});
    }
    begin_update(fraction, lr);
    apply_all(theta, gradient);
}

void Optimizer::restore_scalars(std::span<const std::pair<std::string, double>> saved) {
    const double setting = momentum();
    for (const auto& [name, value] : saved) {
        set_scalar(name, value);
    }
    set_momentum(setting);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const FlatLayout& layout,
                                          std::int64_t begin, std::int64_t end, Device& device,
                                          Stream& stream) {
    check_options(options);
    check_range(layout, begin, end);
    if (device.kind() == DeviceKind::kCuda) {
        return make_cuda_optimizer(options, layout, begin, end, device, stream);
    }
    return options.kind == OptimizerKind::kSgd
               ? make_cpu_sgd(options, layout, begin, end, device, stream)
               : make_cpu_adamw(options, layout, begin, end, device, stream);
}

CpuOptimizer::CpuOptimizer(const OptimizerOptions& options, const FlatLayout& layout,
                           std::int64_t begin, std::int64_t end, Device& device, Stream& stream)
    : options_(options), size_(end - begin), device_(device), stream_(stream) {
    for (const FlatRange& range : layout.ranges()) {
        const std::int64_t first = std::max(range.offset, begin) - begin;
        const std::int64_t last = std::min(range.offset + range.size, end) - begin;
        if (first >= last) {
            continue;
        }
        if (!runs_.empty() && runs_.back().end == first && runs_.back().decay == range.decay) {
            runs_.back().end = last;
        } else {
            runs_.push_back({first, last, range.decay});
        }
    }
}

float* CpuOptimizer::add_slot(std::string_view name) {
    const auto bytes = static_cast<std::size_t>(size_) * sizeof(float);
    Slot& slot =
        slots_.emplace_back(Slot{name, device_.allocate(std::max<std::size_t>(bytes, 64))});
    stream_.fill_zero(slot.buffer.data(), bytes);
    stream_.synchronize();
    return slot.buffer.floats();
}

std::vector<OptimizerSlot> CpuOptimizer::slots() {
    std::vector<OptimizerSlot> result;
    for (Slot& slot : slots_) {
        result.push_back(
            {std::string(slot.name), {slot.buffer.floats(), static_cast<std::size_t>(size_)}});
    }
    return result;
}

kernels::Decay CpuOptimizer::decay() const noexcept {
    if (options_.weight_decay == 0) {
        return kernels::Decay::kNone;
    }
    return options_.decoupled ? kernels::Decay::kDecoupled : kernels::Decay::kCoupled;
}

double CpuOptimizer::keep_parameters(double fraction, double lr) const {
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

void CpuOptimizer::begin_update(double fraction, double lr) {
    begin(fraction, lr);
    set_factors(fraction, lr);
    delta_ = false;
}

void CpuOptimizer::begin_delta(double fraction, double lr) {
    begin(fraction, lr);
    set_delta_factors(fraction, lr);
    delta_ = true;
}

void CpuOptimizer::begin(double fraction, double lr) {
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

void CpuOptimizer::apply_all(std::span<float> theta, std::span<const float> gradient) {
    constexpr std::int64_t kWorthSharing = std::int64_t{1} << 18;  // floats
    ThreadTeam& team = cpu_team(device_);
    if (team.size() == 1 || size_ < kWorthSharing) {
        apply(0, theta, gradient);
        return;
    }
    // Whole cache lines, so that members do not write into each other's.
    const std::int64_t lines = (size_ + FlatLayout::kAlignment - 1) / FlatLayout::kAlignment;
    team.run([&](int member) {
        const auto [first, last] = part_of(lines, member, team.size());
        const std::int64_t begin = first * FlatLayout::kAlignment;
        const std::int64_t end = std::min<std::int64_t>(last * FlatLayout::kAlignment, size_);
        const auto at = static_cast<std::size_t>(begin);
        const auto count = static_cast<std::size_t>(end - begin);
        apply(begin, theta.subspan(at, count), gradient.subspan(at, count));
    });
}

void CpuOptimizer::apply(std::int64_t offset, std::span<float> theta,
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
    auto run_at = std::partition_point(runs_.begin(), runs_.end(),
                                       [&](const Run& r) { return r.end <= offset; });
    for (; run_at != runs_.end() && run_at->begin < offset + count; ++run_at) {
        const std::int64_t first = std::max(run_at->begin, offset);
        const std::int64_t last = std::min(run_at->end, offset + count);
        float* to = theta.data() + (first - offset);
        const float* from = gradient.data() + (first - offset);
        if (delta_) {
            run_delta(first, to, from, last - first);
        } else {
            run(run_at->decay ? decay() : kernels::Decay::kNone, first, to, from, last - first);
        }
    }
}

}  // namespace cohort
