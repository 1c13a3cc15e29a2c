#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cohort/core/interface.hpp"
#include "cohort/core/stored_samples.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// One mini-batch in host memory; the samples may lie in the replica's device memory too.
struct BatchView {
    const float* samples = nullptr;            ///< [N, input shape], normalised
    const std::int32_t* labels = nullptr;      ///< [N, positions], 0..classes-1; cross entropy only
    const std::int64_t* sample_ids = nullptr;  ///< [N], key of dropout masks; else may be null
    std::int64_t size = 0;                     ///< N >= 1
    std::uint32_t epoch = 0;                   ///< second key of dropout masks
    const float* targets = nullptr;            ///< [N, outputs]; squared error only
    /// [N,T], 0..vocabulary-1, in place of the samples where Graph::reads_tokens()
    const std::int32_t* tokens = nullptr;
    /// In place of the samples where it has values; a Replica on a GPU takes them.
    StoredSamples stored = {};
    /// Tells this batch from every other of the process; 0: nothing does. See prefetch().
    std::uint64_t serial = 0;
};

/// Sums over a batch; divide by `samples` for means.
struct BatchResult {
    /// Cross entropy in nats, of every sample the mean over its positions; or of every sample the
    /// mean squared error of its outputs.
    double loss_sum = 0;
    /// Of every sample the share of its labels that are the arg max of their logits (a whole number
    /// where a sample has one label); of a regression 0.
    double correct = 0;
    std::int64_t samples = 0;
};

/// Callbacks of a running training step, all on the calling thread. The default does nothing.
class StepObserver : public Interface {
public:
    /// gradients[begin, end) (floats) are final for this step, in the order of the replica's stream
    /// (record an event there to wait elsewhere). Called in backward order, each range once. On the
    /// CPU at the latest some 64 KiB of weights after it was computed, on a GPU some 4 MiB of
    /// gradients, while earlier layers still have to run; with Precision::kF16 when the whole step
    /// is done, because it may have to be repeated with another loss scale.
    virtual void gradient_ready(std::int64_t /*begin*/, std::int64_t /*end*/) {}
    /// Called between groups of layers (at least before forward, after the loss, and where
    /// gradients are announced); true abandons the step (its gradients are then meaningless). A GPU
    /// is at most two groups behind the calling thread.
    virtual bool should_interrupt() { return false; }
    /// The first group of layers is queued, on a device that works by itself: the moment to
    /// prefetch() the batch of the next step.
    virtual void begun() {}
};

/// A network in the form in which a worker trains it: its memory on one device, as one flat
/// parameter buffer, one flat gradient buffer, one flat state buffer (batch norm running
/// statistics) and the batch statistics of the last step in the same layout, and something that
/// computes a step. Not thread safe. Batches of any size may follow each other.
class TrainableModel : public Interface {
public:
    /// Buffers of zeros. @param device must outlive the model. Errors: DeviceError when memory is
    /// short.
    TrainableModel(Graph graph, Device& device);

    [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
    [[nodiscard]] Device& device() const noexcept { return device_; }
    [[nodiscard]] Stream& stream() const noexcept { return *stream_; }

    /// Flat buffers in device memory, sizes graph().parameters().total() and
    /// graph().state().total() floats.
    [[nodiscard]] std::span<float> parameters() noexcept { return floats_of(parameters_); }
    [[nodiscard]] std::span<float> gradients() noexcept { return floats_of(gradients_); }
    [[nodiscard]] std::span<float> state() noexcept { return floats_of(state_); }
    /// Mean and (biased) variance of the last training batch, layout of state(). The caller folds
    /// them into the running statistics (see fold_batch_statistics).
    [[nodiscard]] std::span<float> batch_state() noexcept { return floats_of(batch_state_); }
    /// Folds batch_state() into state() by the rule of the free function of that name; queued on
    /// the stream.
    void fold_batch_statistics(double a, double fraction);

    /// Gives parameters and state their initial values (Graph::initialise). The same seed gives the
    /// same numbers on every device.
    void initialise(std::uint64_t seed);

    /// Forward and backward. Gradients are *assigned* the mean over the batch. Blocks until the
    /// result is known. Errors: OutOfMemory that names the largest batch that fits (parameters and
    /// state do not change), ShapeError, UsageError for a batch that does not suit the network.
    /// @param seed keys dropout together with the sample ids and the epoch
    /// @return std::nullopt when the observer interrupted the step
    virtual std::optional<BatchResult> train_step(const BatchView& batch, std::uint64_t seed,
                                                  StepObserver& observer) = 0;
    /// Begins to copy the next step's batch to the device, beside the step in progress.
    /// train_step() takes the copy of the batch with the same serial number; where another batch
    /// was prefetched since, it copies the batch itself. The batch's memory stays in place until
    /// then. On the CPU this does nothing.
    virtual void prefetch(const BatchView& /*batch*/) {}
    /// Forward in inference mode (running statistics, no dropout).
    virtual BatchResult evaluate(const BatchView& batch) = 0;
    /// Seconds of the last train_step measured by the device, from its first piece of work to its
    /// last; none where the device has no clock of its own (the CPU) or the step was interrupted.
    [[nodiscard]] virtual std::optional<double> step_seconds() const { return std::nullopt; }
    /// Bytes of memory for activations, as far as they are known.
    [[nodiscard]] virtual std::size_t arena_bytes() const noexcept { return 0; }

private:
    static std::span<float> floats_of(const Buffer& buffer) noexcept {
        return {buffer.floats(), buffer.bytes() / sizeof(float)};
    }
    [[nodiscard]] Buffer zeroed(const FlatLayout& layout);

    Graph graph_;
    Device& device_;
    std::unique_ptr<Stream> stream_;
    Buffer parameters_;
    Buffer gradients_;
    Buffer state_;
    Buffer batch_state_;
};

/// Share of the batch statistics of a whole reference batch in the running statistics, with which
/// the owner of the state folds them.
inline constexpr double kBatchNormMomentum = 0.1;

/// state += (1 - (1 - a)^f) (batch - state), the running-statistics rule for a push worth the
/// fraction f of a reference batch; a is the batch norm momentum (PyTorch's convention). Host
/// memory.
void fold_batch_statistics(std::span<float> state, std::span<const float> batch_state, double a,
                           double fraction);

}  // namespace cohort
