#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "core/tensor/buffer_pool.hpp"
#include "layers/optim/mean_gradient.hpp"
#include "layers/optim/released_copies.hpp"
#include "sim/learner/learner.hpp"
#include "sim/learner/learner_pool.hpp"

namespace cohort {

/// Parameters that do not change any more.
class Learner::Parameters {
public:
    Parameters() = default;
    Parameters(std::uint64_t id, std::shared_ptr<const float> values)
        : id_(id), values_(std::move(values)) {}

    /// Tells them apart from all others of the run.
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    /// [parameters, state]
    [[nodiscard]] const std::shared_ptr<const float>& values() const noexcept { return values_; }

private:
    std::uint64_t id_ = 0;
    std::shared_ptr<const float> values_;
};

/// The mean of all versions' parameters and state, each with the weight of its samples, that
/// forgets with a time constant in samples.
class ParameterAverage {
public:
    ParameterAverage(std::shared_ptr<float> values, double time_constant_samples)
        : values_(std::move(values)), time_constant_samples_(time_constant_samples) {}

    [[nodiscard]] const std::shared_ptr<float>& values() const noexcept { return values_; }
    /// A version of so many samples begins. The first versions count as they come, so that the
    /// initial parameters are forgotten at once.
    void begin_version(std::int64_t samples);
    /// Adds floats [begin, begin + n) of the version.
    void add(const float* version, std::int64_t begin, std::int64_t n);

private:
    std::shared_ptr<float> values_;
    double time_constant_samples_;
    double samples_ = 0;  ///< of all versions
    float weight_ = 0;    ///< of the newest version in the mean
};

/// What a parameter server has, over the whole model: parameters, state, optimizer. Updates by the
/// same arithmetic as ServerShard (MeanGradient). The event loop's thread calls it.
class ParameterStore {
public:
    /// @param graph must outlive it  @param average_samples  LearnerOptions::average_samples
    /// @param pulled  type in which released parameters travel. Errors: UsageError, DeviceError.
    ParameterStore(const Graph& graph, const OptimizerOptions& optimizer, std::uint64_t seed,
                   double average_samples, Wire pulled = Wire::kF32);

    /// A buffer for parameters, gradient or delta, and state. Thread safe.
    [[nodiscard]] std::shared_ptr<float> take_buffer() { return buffers_.take(); }
    [[nodiscard]] std::uint64_t buffer_bytes_most() const { return buffers_.bytes_most(); }
    [[nodiscard]] Learner::Released release(double lag, double lr);
    /// The same, kept until the worker's next push on it.
    [[nodiscard]] Learner::Released release_compensated(int worker, double lag, double lr);
    /// The ParameterAverage of all versions. To be given back before the next apply().
    [[nodiscard]] Learner::Released average();
    /// Local steps' optimizer, without state.
    [[nodiscard]] std::unique_ptr<Optimizer> make_local_optimizer() const;
    /// @param values  of update.terms: gradient or delta, then batch statistics  @param pool helps
    /// @param clip_norm  that a mean gradient is scaled to when its norm is larger; 0: none
    /// @return the squared norm of the mean gradient, if the update asks for it
    double apply(const UpdateOrder& update, std::span<const std::shared_ptr<float>> values,
                 LearnerPool& pool, double clip_norm = 0);
    /// FNV-1a over parameters, state, optimizer.
    [[nodiscard]] std::uint64_t digest();

private:
    [[nodiscard]] Learner::Released make_form(std::shared_ptr<const float> values) {
        return std::make_shared<const Learner::Parameters>(++forms_.made, std::move(values));
    }
    [[nodiscard]] std::span<float> all(const std::shared_ptr<float>& values) const {
        return {values.get(), static_cast<std::size_t>(buffers_.floats())};
    }
    [[nodiscard]] std::size_t parameters() const noexcept {
        return static_cast<std::size_t>(graph_.parameters().total());
    }
    void round(const std::shared_ptr<float>& values) const;
    void begin_update(const UpdateOrder& update, const MeanGradient& mean, const float* before);
    [[nodiscard]] double norm_of(const MeanGradient& mean, const float* before,
                                 LearnerPool& pool) const;
    double sum_over_blocks(
        LearnerPool& pool,
        const std::function<double(std::int64_t begin, std::int64_t n)>& work) const;
    double apply_block(const UpdateOrder& update, const MeanGradient& mean, const float* before,
                       std::int64_t begin, std::int64_t n);

    const Graph& graph_;
    OptimizerOptions options_;
    Wire pulled_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    BufferPool buffers_;
    std::unique_ptr<Optimizer> optimizer_;
    std::shared_ptr<float> theta_;  ///< shared with those that hold the version
    std::int64_t version_ = 0;
    /// The forms of this version that were released, shared by all that hold them; by how far and
    /// with which learning rate they look ahead.
    struct {
        std::map<std::pair<double, double>, std::weak_ptr<const Learner::Parameters>> known;
        std::uint64_t made = 0;  ///< of all versions
    } forms_;
    ReleasedCopies released_;  ///< for a delay compensation
    std::optional<ParameterAverage> average_;
};

}  // namespace cohort
