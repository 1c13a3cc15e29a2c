// One pass over the parameters per update, in blocks that stay in the cache and that all threads
// share, from the old version's memory to the new one's: who holds the old one keeps it, and a
// release without look-ahead costs nothing.
#include "sim/learner/learner_store.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"
#include "optim/vector_math.hpp"

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

ParameterStore::ParameterStore(const Graph& graph, const OptimizerOptions& optimizer,
                               std::uint64_t seed, double average_samples)
    : graph_(graph),
      options_(optimizer),
      device_(make_cpu_device(1)),
      stream_(device_->create_stream()),
      buffers_(*device_, graph.parameters().total() + graph.state().total()),
      optimizer_(make_local_optimizer()),
      theta_(buffers_.take()),
      average_samples_(average_samples),
      average_(average_samples > 0 ? buffers_.take() : nullptr),
      parameters_(graph.parameters().total()),
      state_(graph.state().total()) {
    const std::span<float> values = all(theta_);
    const auto parameters = static_cast<std::size_t>(parameters_);
    std::fill(values.begin(), values.end(), 0.0F);  // padding too
    graph.initialise(seed, values.first(parameters), values.subspan(parameters));
    if (average_ != nullptr) {
        std::copy(values.begin(), values.end(), average_.get());
    }
}

std::span<float> ParameterStore::all(const std::shared_ptr<float>& values) const {
    return {values.get(), static_cast<std::size_t>(buffers_.floats())};
}

std::unique_ptr<Optimizer> ParameterStore::make_local_optimizer() const {
    return make_optimizer(options_, graph_.parameters(), 0, graph_.parameters().total(), *device_,
                          *stream_);
}

std::int64_t ParameterStore::blocks() const noexcept {
    return (parameters_ + kBlock - 1) / kBlock;
}

Learner::Released ParameterStore::release(double lag, double lr) {
    // Only sgd has a velocity to look along.
    return look(options_.kind == OptimizerKind::kSgd && lag > 0 ? lag : 0, lr);
}

Learner::Released ParameterStore::release_compensated(int worker, double lag, double lr) {
    Learner::Released released = release(lag, lr);
    released_.put(worker, version_, released->values());
    return released;
}

Learner::Released ParameterStore::look(double lag, double lr) {
    if (lag == 0) {
        Learner::Released held = current_.lock();
        if (held == nullptr) {
            held = std::make_shared<const Learner::Parameters>(++copies_, theta_);
            current_ = held;
        }
        return held;
    }
    for (const Copy& copy : ahead_) {
        if (copy.lag == lag && copy.lr == lr) {
            if (Learner::Released held = copy.values.lock()) {
                return held;
            }
        }
    }
    const std::shared_ptr<float> values = buffers_.take();
    const auto parameters = static_cast<std::size_t>(parameters_);
    look_ahead(all(theta_).first(parameters), optimizer_->slots().front().values, lr,
               optimizer_->momentum(), lag, all(values).first(parameters));
    std::copy_n(theta_.get() + parameters_, state_, values.get() + parameters_);
    auto made = std::make_shared<const Learner::Parameters>(++copies_, values);
    ahead_.push_back({.lag = lag, .lr = lr, .values = made});
    return made;
}

Learner::Released ParameterStore::average() {
    check_invariant(average_ != nullptr, "a mean of the parameters was asked for at the start");
    return std::make_shared<const Learner::Parameters>(++copies_, average_);
}

/// The first versions count as they come, so that the initial parameters are forgotten at once.
void ParameterStore::average_in(std::int64_t begin, std::int64_t n) {
    const float* const newest = theta_.get() + begin;
    float* const mean = average_.get() + begin;
    const float weight = average_weight_;
    for (std::int64_t i = 0; i < n; ++i) {
        mean[i] += weight * (newest[i] - mean[i]);
    }
}

GradientAnswer ParameterStore::apply(const Learner::Update& update, std::span<const Push> pushes,
                                     LearnerPool& pool) {
    const auto lambda = static_cast<float>(update.delay_compensation);
    std::vector<SumTerm> terms;
    std::vector<std::shared_ptr<const float>> released;
    for (const Push& push : pushes) {
        released.push_back(lambda > 0 ? released_.take(push.worker, push.version) : nullptr);
        terms.push_back({.values = push.values.get(),
                         .coefficient = push.coefficient,
                         .released = released.back().get()});
    }
    if (lambda == 0) {
        released_.clear();  // the plan has changed
    }
    if (update.work == Work::kDelta) {
        optimizer_->begin_delta(update.fraction, update.lr);
    } else {
        optimizer_->begin_update(update.fraction, update.lr);
    }
    const std::shared_ptr<float> before = std::exchange(theta_, buffers_.take());
    std::copy_n(before.get() + parameters_, state_, theta_.get() + parameters_);
    fold_statistics(update, terms);
    if (average_ != nullptr) {
        const auto samples = static_cast<double>(update.samples);
        averaged_samples_ += samples;
        average_weight_ = static_cast<float>(
            std::min(1.0, samples / std::min(averaged_samples_, average_samples_)));
        average_in(parameters_, state_);
    }
    if (update.question.keep && kept_ == nullptr) {
        kept_ = buffers_.take();
    }
    std::vector<GradientAnswer> answers(static_cast<std::size_t>(blocks()));
    const int parts = static_cast<int>((blocks() + kBlocksPerPart - 1) / kBlocksPerPart);
    pool.run_parts(
        parts,
        [&](int part, LearnerEngine* /*engine*/) {
            const std::int64_t first = part * kBlocksPerPart;
            for (std::int64_t i = first; i < std::min(first + kBlocksPerPart, blocks()); ++i) {
                answers[static_cast<std::size_t>(i)] =
                    apply_block(update, terms, before.get(), theta_.get(), i * kBlock,
                                std::min(kBlock, parameters_ - i * kBlock));
            }
        },
        true);
    version_ = update.version;
    current_.reset();
    ahead_.clear();
    GradientAnswer answer;
    for (const GradientAnswer& part : answers) {
        answer.add(part);
    }
    return answer;
}

/// While a block is in the cache.
GradientAnswer ParameterStore::answer(const GradientQuestion& question, const float* gradient,
                                      std::int64_t begin, std::int64_t n) {
    const auto count = static_cast<std::size_t>(n);
    GradientAnswer answer;
    if (question.norm) {
        answer.squares = sum_of_squares({gradient, count});
    }
    if (question.compare && kept_ != nullptr) {
        answer.product = dot({gradient, count}, {kept_.get() + begin, count});
    }
    if (question.keep) {
        std::copy_n(gradient, n, kept_.get() + begin);
    }
    return answer;
}

GradientAnswer ParameterStore::apply_block(const Learner::Update& update,
                                           std::span<const SumTerm> terms, const float* from,
                                           float* to, std::int64_t begin, std::int64_t n) {
    const auto lambda = static_cast<float>(update.delay_compensation);
    thread_local std::vector<float> sum(static_cast<std::size_t>(kBlock));
    const auto count = static_cast<std::size_t>(n);
    const float* gradient = sum.data();
    if (lambda > 0) {
        compensated_sum(terms, from, lambda, begin, sum.data(), n);
    } else if (terms.size() == 1 && terms.front().coefficient == 1) {
        gradient = terms.front().values + begin;
    } else {
        weighted_sum(terms, begin, sum.data(), n);
    }
    std::copy_n(from + begin, n, to + begin);
    optimizer_->apply(begin, {to + begin, count}, {gradient, count});
    if (average_ != nullptr) {
        average_in(begin, n);
    }
    return answer(update.question, gradient, begin, n);
}

/// Mean of the pushes' batch statistics with the weights of their gradients, then the usual rule.
void ParameterStore::fold_statistics(const Learner::Update& update, std::vector<SumTerm> terms) {
    if (state_ == 0) {
        return;
    }
    double weights = 0;
    for (const Learner::Update::Term& term : update.terms) {
        weights += term.coefficient;
    }
    if (!(weights > 0)) {
        return;  // nobody's statistics count
    }
    for (SumTerm& term : terms) {
        // Weights that do not sum to one shrink a step, never a variance.
        term.coefficient = static_cast<float>(
            std::abs(weights - 1) < 1e-9 ? term.coefficient : term.coefficient / weights);
    }
    std::vector<float> mean(static_cast<std::size_t>(state_));
    weighted_sum(terms, parameters_, mean.data(), state_);
    fold_batch_statistics(all(theta_).subspan(static_cast<std::size_t>(parameters_)), mean,
                          kBatchNormMomentum, update.fraction);
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
