// One pass over the parameters per update, in blocks that stay in the cache and that all threads
// share, from the old version's memory to the new one's: what holds the old one keeps it, and a
// release without look-ahead costs nothing.
#include "sim/learner/learner_store.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/optim/learning_options.hpp"
#include "core/bf16.hpp"
#include "layers/optim/look_ahead.hpp"
#include "layers/optim/vector_math.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBlock = std::int64_t{16} * 1024;  // floats: all operands in the L2 cache
constexpr std::int64_t kBlocksPerPart = 4;                // less is not worth a thread's attention

/// FNV-1a, 64 bits.
class Hash {
public:
    void add(std::span<const std::byte> bytes) noexcept {
        for (const std::byte byte : bytes) {
            value_ = (value_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
        }
    }
    [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

private:
    std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

void ParameterAverage::begin_version(std::int64_t count) {
    const auto samples = static_cast<double>(count);
    samples_ += samples;
    weight_ =
        static_cast<float>(std::min(1.0, samples / std::min(samples_, time_constant_samples_)));
}

void ParameterAverage::add(const float* version, std::int64_t begin, std::int64_t n) {
    const float* const newest = version + begin;
    float* const mean = values_.get() + begin;
    const float weight = weight_;
    for (std::int64_t i = 0; i < n; ++i) {
        mean[i] += weight * (newest[i] - mean[i]);
    }
}

ParameterStore::ParameterStore(const Graph& graph, const OptimizerOptions& optimizer,
                               std::uint64_t seed, double average_samples, Wire pulled)
    : graph_(graph),
      options_(optimizer),
      pulled_(pulled),
      device_(make_cpu_device(1)),
      stream_(device_->create_stream()),
      buffers_(*device_, graph.parameters().total() + graph.state().total()),
      optimizer_(make_local_optimizer()),
      theta_(buffers_.take()) {
    const std::span<float> values = all(theta_);
    std::fill(values.begin(), values.end(), 0.0F);  // padding too
    graph.initialise(seed, values.first(parameters()), values.subspan(parameters()));
    if (average_samples > 0) {
        average_.emplace(buffers_.take(), average_samples);
        std::copy(values.begin(), values.end(), average_->values().get());
    }
}

std::unique_ptr<Optimizer> ParameterStore::make_local_optimizer() const {
    return make_optimizer(options_, graph_.parameters(), 0, graph_.parameters().total(), *device_,
                          *stream_);
}

Learner::Released ParameterStore::release(double lag, double lr) {
    const LookAhead state = optimizer_->look_ahead();
    const bool ahead = lag > 0 && !state.first.empty();
    auto& form = forms_.known[ahead ? std::pair(lag, lr) : std::pair(0.0, 0.0)];
    if (Learner::Released held = form.lock()) {
        return held;
    }
    std::shared_ptr<float> values = theta_;
    if (ahead) {
        values = buffers_.take();
        look_ahead(all(theta_).first(parameters()), state, lr, lag,
                   all(values).first(parameters()));
        std::ranges::copy(all(theta_).subspan(parameters()), values.get() + parameters());
    } else if (pulled_ == Wire::kBf16) {
        values = buffers_.take();
        std::ranges::copy(all(theta_), values.get());
    }
    round(values);
    Learner::Released made = make_form(std::move(values));
    form = made;
    return made;
}

/// Parameters as workers receive them; the state travels as it is.
void ParameterStore::round(const std::shared_ptr<float>& values) const {
    if (pulled_ == Wire::kBf16) {
        const std::span<float> floats = all(values).first(parameters());
        std::vector<std::uint16_t> rounded(floats.size());
        narrow_to_bf16(floats, rounded.data());
        widen_bf16(rounded.data(), floats);
    }
}

Learner::Released ParameterStore::release_compensated(int worker, double lag, double lr) {
    Learner::Released released = release(lag, lr);
    released_.put(worker, version_, released->values());
    return released;
}

Learner::Released ParameterStore::average() {
    check_invariant(average_.has_value(), "a mean of the parameters was asked for at the start");
    return make_form(average_->values());
}

double ParameterStore::apply(const UpdateOrder& update,
                             std::span<const std::shared_ptr<float>> values, LearnerPool& pool,
                             double clip_norm) {
    std::vector<SumTerm> terms;
    std::vector<std::shared_ptr<const float>> released;
    double weights = 0;
    for (const UpdateTerm& term : update.terms) {
        released.push_back(update.delay_compensation > 0
                               ? released_.take(term.push.worker, term.version)
                               : nullptr);
        weights += term.coefficient;
        terms.push_back({.values = values[terms.size()].get(),
                         .coefficient = static_cast<float>(term.coefficient),
                         .released = released.back().get()});
    }
    if (update.delay_compensation == 0) {
        released_.clear();  // the plan has changed
    }
    const std::shared_ptr<float> before = std::exchange(theta_, buffers_.take());
    if (clip_norm > 0 && update.work == Work::kGradient) {
        const MeanGradient whole(terms, weights, update.delay_compensation);
        const double factor = clip_factor(clip_norm, norm_of(whole, before.get(), pool));
        weights *= factor;
        for (SumTerm& term : terms) {
            term.coefficient = static_cast<float>(term.coefficient * factor);
        }
    }
    const MeanGradient mean(std::move(terms), weights, update.delay_compensation);
    begin_update(update, mean, before.get());
    const double squares = sum_over_blocks(pool, [&](std::int64_t begin, std::int64_t n) {
        return apply_block(update, mean, before.get(), begin, n);
    });
    version_ = update.version;
    forms_.known.clear();
    return squares;
}

double ParameterStore::norm_of(const MeanGradient& mean, const float* before,
                               LearnerPool& pool) const {
    const double squares = sum_over_blocks(pool, [&](std::int64_t begin, std::int64_t n) {
        thread_local std::vector<float> sum(static_cast<std::size_t>(kBlock));
        const float* block = mean.block(before, begin, n, sum.data());
        return sum_of_squares({block, static_cast<std::size_t>(n)});
    });
    return std::sqrt(squares);
}

void ParameterStore::begin_update(const UpdateOrder& update, const MeanGradient& mean,
                                  const float* before) {
    if (update.work == Work::kDelta) {
        optimizer_->begin_delta(update.fraction, update.learning_rate);
    } else {
        optimizer_->begin_update(update.fraction, update.learning_rate);
    }
    const std::span<float> state = all(theta_).subspan(parameters());
    const auto first = static_cast<std::int64_t>(parameters());
    const auto count = static_cast<std::int64_t>(state.size());
    std::copy_n(before + first, count, state.begin());
    const std::vector<float> statistics = mean.statistics(first, count);
    if (!statistics.empty()) {
        fold_batch_statistics(state, statistics, kBatchNormMomentum, update.fraction);
    }
    if (average_) {
        average_->begin_version(update.samples);
        average_->add(theta_.get(), first, count);
    }
}

/// @param work  of a block; its numbers add up in the order of blocks
double ParameterStore::sum_over_blocks(
    LearnerPool& pool,
    const std::function<double(std::int64_t begin, std::int64_t n)>& work) const {
    const auto floats = static_cast<std::int64_t>(parameters());
    const std::int64_t blocks = (floats + kBlock - 1) / kBlock;
    std::vector<double> numbers(static_cast<std::size_t>(blocks));
    pool.run_parts(
        static_cast<int>((blocks + kBlocksPerPart - 1) / kBlocksPerPart),
        [&](int part, LearnerEngine* /*engine*/) {
            const std::int64_t first = part * kBlocksPerPart;
            for (std::int64_t i = first; i < std::min(first + kBlocksPerPart, blocks); ++i) {
                numbers[static_cast<std::size_t>(i)] =
                    work(i * kBlock, std::min(kBlock, floats - i * kBlock));
            }
        },
        true);
    return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

/// Floats [begin, begin + n) of the update, from the old parameters to the new ones.
double ParameterStore::apply_block(const UpdateOrder& update, const MeanGradient& mean,
                                   const float* before, std::int64_t begin, std::int64_t n) {
    thread_local std::vector<float> sum(static_cast<std::size_t>(kBlock));
    const auto count = static_cast<std::size_t>(n);
    float* const to = theta_.get() + begin;
    const std::span<const float> gradient(mean.block(before, begin, n, sum.data()), count);
    std::copy_n(before + begin, n, to);
    optimizer_->apply(begin, {to, count}, gradient);
    if (average_) {
        average_->add(theta_.get(), begin, n);
    }
    return update.ask_norm ? sum_of_squares(gradient) : 0;
}

std::uint64_t ParameterStore::digest() {
    Hash hash;
    hash.add(std::as_bytes(all(theta_)));
    for (const OptimizerSlot& slot : optimizer_->slots()) {
        hash.add(std::as_bytes(slot.values));
    }
    for (const OptimizerScalar& scalar : optimizer_->scalars()) {
        hash.add(std::as_bytes(std::span(&scalar.value, 1)));
    }
    return hash.value();
}

}  // namespace cohort
