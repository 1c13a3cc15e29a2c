#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/core/interface.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/tensor/element.hpp"

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
};

/// Seconds spent in one layer.
struct LayerProfile {
    std::string name;
    std::string kind;
    bool is_convolution = false;
    double forward_s = 0;
    double backward_s = 0;
};

struct ReplicaOptions {
    bool deterministic = false;  ///< no choice by measurement: bit-identical from run to run
    Precision precision = Precision::kF32;  ///< on a CPU: see cpu_precision()
    /// On a GPU: a step is recorded once per batch size and then queued as a whole; false: every
    /// kernel by itself (tests compare the two).
    bool recorded = true;
    std::string tuning_file = {};  ///< see make_tuning_cache
};

/// A network with its memory on one device: one flat parameter buffer, one flat gradient buffer,
/// one flat state buffer (batch norm running statistics) and the batch statistics of the last
/// step in the same layout. Not thread safe. Batches of any size may follow each other.
class Replica {
public:
    /// @param device must outlive the replica. Errors: DeviceError when memory is short.
    Replica(Graph graph, Device& device, const ReplicaOptions& options = {});
    Replica(Replica&&) noexcept;
    Replica& operator=(Replica&&) noexcept;
    ~Replica();

    [[nodiscard]] const Graph& graph() const noexcept;
    [[nodiscard]] Device& device() const noexcept;
    [[nodiscard]] Stream& stream() const noexcept;

    /// Flat buffers in device memory, sizes graph().parameters().total() and
    /// graph().state().total() floats.
    [[nodiscard]] std::span<float> parameters() noexcept;
    [[nodiscard]] std::span<float> gradients() noexcept;
    [[nodiscard]] std::span<float> state() noexcept;
    /// Mean and (biased) variance of the last training batch, layout of state(). The caller folds
    /// them into the running statistics (see fold_batch_statistics).
    [[nodiscard]] std::span<float> batch_state() noexcept;
    /// Folds batch_state() into state() by the rule of the free function of that name.
    void fold_batch_statistics(double a, double fraction);

    /// Draws initial parameters (see Initialisation) from `seed`, state to
    /// mean 0, variance 1. The same seed gives the same numbers on every device.
    void initialise(std::uint64_t seed);

    /// Forward and backward. Gradients are *assigned* the mean over the batch. Blocks until the
    /// result is known. Errors: OutOfMemory that names the largest batch that fits (parameters and
    /// state do not change), ShapeError, UsageError for a batch without the labels or targets of
    /// the loss, labels outside the classes, or tokens outside the vocabulary.
    /// @param seed keys dropout together with the sample ids and the epoch
    /// @return std::nullopt when the observer interrupted the step
    std::optional<BatchResult> train_step(const BatchView& batch, std::uint64_t seed,
                                          StepObserver& observer);
    BatchResult train_step(const BatchView& batch, std::uint64_t seed = 0);

    /// Forward in inference mode (running statistics, no dropout).
    BatchResult evaluate(const BatchView& batch);
    /// Seconds of the last train_step measured by the device, from its first piece of work to its
    /// last; none where the device has no clock of its own (the CPU) or the step was interrupted.
    [[nodiscard]] std::optional<double> step_seconds() const;
    /// Logits, or the outputs of a regression, in inference mode: [N, outputs], host memory. Needs
    /// no labels or targets.
    void infer(const BatchView& batch, std::span<float> logits);

    /// Bytes of the activation arena (planned by liveness) for the batch sizes seen so far, and
    /// of that and the flat buffers together.
    [[nodiscard]] std::size_t arena_bytes() const noexcept;
    [[nodiscard]] std::size_t total_bytes() const noexcept;

    /// Switches per-layer timing on (and clears it) or off; off by default, costs some percent.
    void set_profiling(bool on);
    /// Per layer, sums over all steps since profiling was switched on, measured on thread 0.
    [[nodiscard]] std::vector<LayerProfile> profile() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
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
