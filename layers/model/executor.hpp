#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/core/interface.hpp"
#include "cohort/model/replica.hpp"
#include "layers/model/execution_plan.hpp"

namespace cohort {

/// Memory for activations, grown to the largest plan that has run.
class Arena {
public:
    explicit Arena(Device& device) : device_(device) {}
    /// Errors: OutOfMemory; the earlier memory is then freed too.
    void reserve(std::size_t bytes);
    /// Bytes that reserve() could have now: those it holds and those that are free.
    [[nodiscard]] std::uint64_t room() const;
    [[nodiscard]] std::byte* data() const noexcept {
        return static_cast<std::byte*>(buffer_.data());
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return buffer_.bytes(); }

private:
    Device& device_;
    Buffer buffer_;
};

/// Input of one run.
struct RunInput {
    const BatchView* batch = nullptr;
    std::uint64_t seed = 0;
    StepObserver* observer = nullptr;  ///< may be nullptr
    float* logits = nullptr;  ///< [N, outputs], receives the outputs; then there is no loss
};

/// The batch's samples, or its tokens where the network reads those: elements of 32 bits.
[[nodiscard]] inline const float* input_of(const Graph& graph, const BatchView& batch) {
    return graph.reads_tokens() ? reinterpret_cast<const float*>(batch.tokens) : batch.samples;
}

/// The flat buffers of a replica.
struct FlatBuffers {
    float* parameters = nullptr;
    float* gradients = nullptr;
    float* state = nullptr;
    float* batch_state = nullptr;
};

/// Runs one compiled form of a network over batches of any size.
class Executor : public Interface {
public:
    /// Gives every kernel its slices of the flat buffers.
    virtual void bind(const FlatBuffers& buffers) = 0;
    /// Forward, loss and (in training form) backward. nullopt: interrupted by the observer. Errors:
    /// OutOfMemory.
    virtual std::optional<BatchResult> run(const RunInput& input, Arena& arena) = 0;
    /// See TrainableModel::prefetch.
    virtual void prefetch(const BatchView& /*batch*/) {}
    /// Seconds of the last run in training form measured by the device, if it has a clock of its
    /// own.
    [[nodiscard]] virtual std::optional<double> seconds() const { return std::nullopt; }
    /// All pieces of the last run in training form were queued as recordings.
    [[nodiscard]] virtual bool recorded() const { return false; }

    /// See Replica::recorded_work().
    [[nodiscard]] virtual std::size_t recorded_work() const { return 0; }

    virtual void set_profiling(bool on) = 0;
    /// Adds this executor's times to `profile`, one entry per node, and in training form what its
    /// kernels are made of.
    virtual void add_profile(std::vector<LayerProfile>& profile) const = 0;
};

/// Settings of both kinds of executors.
struct ExecutorSetting {
    const Graph& graph;
    Device& device;
    Stream& stream;
    bool training = true;
    bool deterministic = false;
    bool recorded = true;
    bool fuses_loss = false;  ///< runs kernels made by Layer::compile_with_loss
    Precision precision = Precision::kF32;
    TuningCache* tuning = nullptr;
    KernelSupport* support = nullptr;
    /// Whole batches: gradients are announced at the latest when `piece_bytes` of them are final.
    std::size_t piece_bytes = std::size_t{4} << 20;
    /// Whole batches: sizes that plans and recordings are kept of.
    std::size_t recent_sizes = 16;
};

/// Sums of seconds per layer.
class LayerTimes {
public:
    explicit LayerTimes(std::size_t nodes) : times_(nodes) {}
    void add(const Step& step, double seconds) {
        NodeTime& time = times_[static_cast<std::size_t>(step.node)];
        (step.kind == StepKind::kForward ? time.forward_s : time.backward_s) += seconds;
    }
    void clear() { times_.assign(times_.size(), {}); }
    void add_to(std::vector<LayerProfile>& profile) const;

private:
    struct NodeTime {
        double forward_s = 0;
        double backward_s = 0;
    };
    std::vector<NodeTime> times_;
};

/// Every kernel gets its slices of the flat buffers, in canonical order.
void bind_kernels(CompiledGraph& compiled, const FlatBuffers& buffers);

/// The node's last backward pass is over: its gradients are final.
void announce_gradients(const Graph& graph, int node, StepObserver& observer);

/// On the CPU: slice by slice, on all team members.
[[nodiscard]] std::unique_ptr<Executor> make_slice_executor(const ExecutorSetting& setting);
/// On a GPU: the whole batch at once, work queued on one stream.
[[nodiscard]] std::unique_ptr<Executor> make_whole_batch_executor(const ExecutorSetting& setting);

}  // namespace cohort
