#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "optim/released_copies.hpp"
#include "optim/weighted_sum.hpp"
#include "sim/learner/learner.hpp"
#include "sim/learner/learner_pool.hpp"
#include "tensor/buffer_pool.hpp"

namespace cohort {

/// Parameters that nobody changes any more.
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

/// What a parameter server has, over the whole model: parameters, state, optimizer. Does with a
/// fire exactly what ServerShard does. The event loop's thread calls it.
class ParameterStore {
public:
    /// A push that an update sums.
    struct Push {
        std::shared_ptr<const float> values;  ///< gradient or delta, then batch statistics
        float coefficient = 1;
        int worker = 0;
        std::int64_t version = 0;
    };

    /// @param graph must outlive it  @param average_samples  LearnerOptions::average_samples.
    /// Errors: UsageError, DeviceError.
    ParameterStore(const Graph& graph, const OptimizerOptions& optimizer, std::uint64_t seed,
                   double average_samples);

    /// A buffer for parameters, gradient or delta, and state. Thread safe.
    [[nodiscard]] std::shared_ptr<float> take_buffer() { return buffers_.take(); }
    [[nodiscard]] std::uint64_t buffer_bytes_most() const { return buffers_.bytes_most(); }
    [[nodiscard]] Learner::Released release(double lag, double lr);
    /// The same, kept until the worker's next push on it.
    [[nodiscard]] Learner::Released release_compensated(int worker, double lag, double lr);
    /// The mean of all versions' parameters and state, each with the weight of its samples, that
    /// forgets with a time constant of average_samples. To be given back before the next apply().
    [[nodiscard]] Learner::Released average();
    /// Local steps' optimizer, without state.
    [[nodiscard]] std::unique_ptr<Optimizer> make_local_optimizer() const;
    /// @param pushes update.terms  @param pool helps
    GradientAnswer apply(const Learner::Update& update, std::span<const Push> pushes,
                         LearnerPool& pool);
    /// FNV-1a over parameters, state, optimizer.
    [[nodiscard]] std::uint64_t digest();

private:
    struct Copy {
        double lag = 0;
        double lr = 0;
        std::weak_ptr<const Learner::Parameters> values;
    };

    [[nodiscard]] std::span<float> all(const std::shared_ptr<float>& values) const;
    [[nodiscard]] Learner::Released look(double lag, double lr);
    void fold_statistics(const Learner::Update& update, std::vector<SumTerm> terms);
    /// Floats [begin, begin + n) of the update, from the old parameters to the new ones.
    GradientAnswer apply_block(const Learner::Update& update, std::span<const SumTerm> terms,
                               const float* from, float* to, std::int64_t begin, std::int64_t n);
    GradientAnswer answer(const GradientQuestion& question, const float* gradient,
                          std::int64_t begin, std::int64_t n);
    void average_in(std::int64_t begin, std::int64_t n);
    [[nodiscard]] std::int64_t blocks() const noexcept;

    const Graph& graph_;
    OptimizerOptions options_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    BufferPool buffers_;
    std::unique_ptr<Optimizer> optimizer_;
    std::shared_ptr<float> theta_;  ///< shared with who holds the version
    std::weak_ptr<const Learner::Parameters> current_;
    std::vector<Copy> ahead_;  ///< of this version
    ReleasedCopies released_;
    std::shared_ptr<float> kept_;  ///< mean gradient that later ones are compared with; null: none
    double average_samples_;
    std::shared_ptr<float> average_;  ///< null: there is none
    double averaged_samples_ = 0;     ///< of all updates
    float average_weight_ = 0;        ///< of the newest version in the mean
    std::int64_t parameters_ = 0;     ///< floats
    std::int64_t state_ = 0;          ///< floats
    std::int64_t version_ = 0;
    std::uint64_t copies_ = 0;
};

}  // namespace cohort
