#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/layers/kernel.hpp"
#include "cohort/model/trainable_model.hpp"
#include "cohort/tensor/element.hpp"

namespace cohort {

/// What one layer does and the seconds spent in it.
struct LayerProfile {
    std::string name;
    std::string kind;
    bool is_convolution = false;
    NodeFlops flops;  ///< of products, per sample
    /// On a CPU, in training, after the first step; see Kernel::implementations().
    std::vector<KernelImplementation> implementations;
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

/// A network of layers that this library computes.
class Replica final : public TrainableModel {
public:
    /// @param device must outlive the replica. Errors: DeviceError when memory is short.
    Replica(Graph graph, Device& device, const ReplicaOptions& options = {});
    ~Replica() override;

    /// Errors: as TrainableModel; UsageError for a batch without the labels or targets of the loss,
    /// labels outside the classes, or tokens outside the vocabulary.
    std::optional<BatchResult> train_step(const BatchView& batch, std::uint64_t seed,
                                          StepObserver& observer) override;
    BatchResult train_step(const BatchView& batch, std::uint64_t seed = 0);

    void prefetch(const BatchView& batch) override;
    BatchResult evaluate(const BatchView& batch) override;
    [[nodiscard]] std::optional<double> step_seconds() const override;
    /// On a GPU: the whole last train_step ran from recordings. False for the first step of a batch
    /// size, for a step that was interrupted or whose layers were timed, and where recording is
    /// switched off or refused by the device; always on the CPU.
    [[nodiscard]] bool recorded() const;
    /// Logits, or the outputs of a regression, in inference mode: [N, outputs], host memory. Needs
    /// no labels or targets.
    void infer(const BatchView& batch, std::span<float> logits);

    /// Of the activation arena (planned by liveness) for the batch sizes seen so far.
    [[nodiscard]] std::size_t arena_bytes() const noexcept override;
    /// Bytes of that and of the flat buffers.
    [[nodiscard]] std::size_t total_bytes() noexcept;

    /// Pieces of work (kernels, copies, fills) of which the last training step's recording on a GPU
    /// consists; 0: that step was not recorded.
    [[nodiscard]] std::size_t recorded_work() const;

    /// Switches per-layer timing on (and clears it) or off; off by default, costs some percent.
    void set_profiling(bool on);
    /// Per layer, sums over all steps since profiling was switched on, measured on thread 0.
    [[nodiscard]] std::vector<LayerProfile> profile() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
