#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/core/interface.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/tensor/element.hpp"
#include "cohort/tensor/shape.hpp"

namespace cohort {

/// Order and type of one sample's elements in memory.
struct TensorFormat {
    Shape shape;             ///< [C,H,W], [T,F], [F] or tokens [T], without the batch
    std::int64_t block = 1;  ///< 1: row-major; b: [ceil(C/b),H,W,b], missing channels are zero;
                             ///< so C or more is NHWC, how the GPU has every [C,H,W]
    ElementType type = ElementType::kF32;

    /// Elements of one sample in memory, padding included.
    [[nodiscard]] std::int64_t sample_floats() const noexcept;
    [[nodiscard]] std::size_t sample_bytes() const noexcept {
        return static_cast<std::size_t>(sample_floats()) * element_bytes(type);
    }
    friend bool operator==(const TensorFormat&, const TensorFormat&) noexcept = default;
};

/// Choices by measurement that kernels of one replica share, so that equal layers measure once.
class TuningCache;

/// What changes from one step to the next and kernels read when they run. It lies in device memory,
/// so that work which was recorded once sees the values of the step it is queued for.
struct StepValues {
    std::uint64_t seed = 0;      ///< keys of dropout
    std::uint32_t epoch = 0;     ///< likewise
    float loss_scale = 1;        ///< kF16: the loss's gradient is multiplied by it; a power of two
    std::uint32_t overflow = 0;  ///< set by unscale(): a gradient was infinite or NaN
    std::uint32_t unused = 0;
};

struct StoredSamples;

/// What the kernels of one replica share on a device with memory of its own: library handles,
/// copies of the weights in the type and order that kernels read, values that change from step to
/// step. The CPU has none. Calls from refresh_weights() to unscale() queue work and can be
/// recorded.
class KernelSupport : public Interface {
public:
    /// How kernels want the network's input: NHWC, in the activations' type, channels padded with
    /// zeros to 16 bytes; [F] and [T,F] row-major.
    [[nodiscard]] virtual TensorFormat input_format(const Shape& input) const = 0;
    /// After kernels were made and bound, before they run: memory for the copies of weights. Again
    /// after others were bound. Errors: DeviceError.
    virtual void prepare() = 0;
    /// Device memory, at one address for good.
    [[nodiscard]] virtual StepValues* step_values() noexcept = 0;

    /// Copies all weights from the flat buffer in one launch; called before each run.
    virtual void refresh_weights() = 0;
    /// `from` is single precision, row-major [samples, shape]; both in device memory.
    virtual void load_input(const TensorFormat& format, const float* from, void* to,
                            std::int64_t samples) = 0;
    /// The same from samples as they are stored; in single precision with the bits of the CPU's
    /// SampleTransform. All of it in device memory.
    virtual void load_stored(const TensorFormat& format, const StoredSamples& from, void* to,
                             std::int64_t samples) = 0;
    /// The other way about; for what infer() returns.
    virtual void read_output(const TensorFormat& format, const void* from, float* to,
                             std::int64_t samples) = 0;
    /// to += from, `count` elements of that type, sums in single precision.
    virtual void add_into(ElementType type, void* to, const void* from, std::int64_t count) = 0;
    /// kF16: gradients[0, count) /= loss_scale, exactly (a power of two); sets `overflow`.
    virtual void unscale(float* gradients, std::int64_t count) = 0;

    /// Device memory that it holds.
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
};

/// nullptr on the CPU. Errors: UsageError for a precision that the device does not have,
/// DeviceError when a library is missing.
[[nodiscard]] std::unique_ptr<KernelSupport> make_kernel_support(Device& device, Stream& stream,
                                                                 Precision precision,
                                                                 bool deterministic);

/// What a layer knows when its kernel is made.
struct KernelContext {
    Device& device;
    Stream& stream;                    ///< all work of the kernel is queued here
    std::vector<TensorFormat> inputs;  ///< as their producers chose them
    bool training = true;              ///< false: inference kernel (running statistics, no dropout)
    bool deterministic = false;        ///< no choice by measurement
    bool input_gradient = true;        ///< false: the gradient of the inputs is never asked for
    TuningCache* tuning = nullptr;
    Precision precision = Precision::kF32;
    KernelSupport* support = nullptr;  ///< null on the CPU; outlives the kernel
};

/// Where a kernel's slices of the flat buffers lie (one pointer per TensorSpec, canonical order).
struct KernelBinding {
    std::vector<const float*> parameters;
    std::vector<float*> gradients;
    std::vector<const float*> state;
    std::vector<float*> batch_state;
    /// The first gradient is added to what a kernel that ran earlier in the backward pass has
    /// assigned: both share the parameter (tied weights). Only embedding and linear do so.
    bool adds = false;
    /// Backward adds the gradient of input KernelTraits::adding_input to the gradient in its place.
    bool adds_input_gradient = false;
};

/// Static facts by which the executor plans memory and order. Bytes for sample-addressed memory
/// are per sample, others as said.
struct KernelTraits {
    TensorFormat output;
    int forward_passes = 1;  ///< pass p+1 starts when pass p has seen the whole batch
    int backward_passes = 1;
    bool backward_reads_inputs = true;
    bool backward_reads_output = false;
    std::size_t saved_bytes = 0;  ///< per sample, written by forward, read by backward
    /// Input whose gradient equals the output's gradient once the first backward pass has run
    /// (residual branch); the kernel then never writes it. -1: none.
    int pass_through_input = -1;
    /// Number of the input to whose gradient backward can add its own, see
    /// KernelBinding::adds_input_gradient. Gradients of other inputs are assigned to scratch memory
    /// where another layer's gradient is in their place, and the executor adds them. -1: none.
    int adding_input = -1;
    bool is_view = false;          ///< output is the input's memory under another shape
    std::size_t weight_bytes = 0;  ///< parameters read per slice; large weights want large slices
};

/// Memory a kernel wants for given slice sizes.
struct KernelMemory {
    std::size_t forward_scratch = 0;  ///< per team member, contents do not survive a call
    std::size_t backward_scratch = 0;
    std::size_t forward_shared = 0;  ///< lives from begin_forward to the end of the last pass
    std::size_t backward_shared = 0;
};

/// One slice of a batch: consecutive samples, handled by one team member. All pointers are
/// already moved to the slice's first sample. Tensors are of the type that their TensorFormat says;
/// where it is not kF32 the pointers stand for that type's. On a GPU the slice is the whole batch,
/// and seed and epoch are read from KernelSupport::step_values() instead.
struct KernelSlice {
    std::int64_t samples = 0;
    int member = 0;  ///< selects per-member accumulators
    std::span<const float* const> inputs;
    float* output = nullptr;
    float* output_gradient = nullptr;  ///< backward may overwrite it
    /// Assign, or add (see KernelBinding::adds_input_gradient); nullptr entries are not wanted.
    std::span<float* const> input_gradients;
    std::byte* saved = nullptr;
    std::byte* scratch = nullptr;
    std::byte* shared = nullptr;
    const std::int64_t* sample_ids = nullptr;
    std::uint64_t seed = 0;
    std::uint32_t epoch = 0;
};

/// What a network is trained to make small.
enum class LossKind {
    kSoftmaxCrossEntropy,  ///< of logits and a label
    kMeanSquaredError,     ///< of outputs and as many targets, mean over a sample's outputs
};

/// Sums of the loss over a batch.
struct LossSums {
    double loss = 0;  ///< cross entropy in nats, or squared errors
    /// Of every sample the share of its labels that are the arg max of their logits (the first of
    /// equals wins): 0 or 1 for a sample with one label. 0 for squared errors.
    double correct = 0;
};

/// One slice of outputs and what they should be. Logits and gradient are of the type of the
/// context's only input, which is their format; kF32 where it has none.
struct LossSlice {
    std::int64_t samples = 0;
    int member = 0;
    const float* logits = nullptr;         ///< [samples, outputs] or [samples, T, V], row-major
    const std::int32_t* labels = nullptr;  ///< [samples] or [samples, T]; cross entropy
    const float* targets = nullptr;        ///< [samples, outputs]; squared error
    float scale = 1;                       ///< of the gradient; 1/N gives the mean's gradient
    /// (softmax - one hot) * scale, or 2/outputs (output - target) * scale; or nullptr.
    float* gradient = nullptr;
};

class LossKernel;

/// What computes a part of a kernel, where a library or a choice decides that.
struct KernelImplementation {
    std::string part;  ///< "forward", "input gradient", "weight gradient"
    std::string name;  ///< the library's name for it; of our own "own:" and a word
};

/// A layer compiled for a device. The executor cuts the batch into slices and runs several
/// kernels on one slice while it is in cache; sums over the batch are kept per team member and
/// put together, always in the same order, at the end of a pass.
///
/// Order of calls in a step: begin_forward, forward(0, ...) for all slices, end_forward(0), then
/// the next pass; likewise backward. begin_/end_ run on the calling thread alone. On an
/// asynchronous device all of these queue work on the context's stream; only LossKernel::finish
/// waits for it. Pointers are in device memory throughout.
class Kernel : public Interface {
public:
    [[nodiscard]] const KernelTraits& traits() const noexcept { return traits_; }
    /// Flat-buffer addresses; called once before the first run.
    virtual void bind(const KernelBinding& binding) { binding_ = binding; }
    /// Makes everything needed for these slice sizes; may be called again with others.
    [[nodiscard]] virtual KernelMemory prepare(std::span<const std::int64_t> /*slice_sizes*/) {
        return {};
    }
    /// Frees what prepare() has made for this slice size alone; it is prepared again before it
    /// runs again.
    virtual void forget(std::int64_t /*slice_size*/) {}

    virtual void begin_forward(std::byte* /*shared*/) {}
    virtual void forward(int pass, const KernelSlice& slice) = 0;
    virtual void end_forward(int /*pass*/, std::int64_t /*batch*/, std::byte* /*shared*/) {}

    virtual void begin_backward(std::byte* /*shared*/) {}
    virtual void backward(int pass, const KernelSlice& slice) = 0;
    /// Of a kernel made by Layer::compile_with_loss, in place of forward, loss and backward: has
    /// neither output nor output gradient. @param labels  without logits and gradient
    /// @param loss  where a GPU's kernel leaves the sums; those of the CPU are returned
    virtual LossSums backward_with_loss(const KernelSlice& /*slice*/, const LossSlice& /*labels*/,
                                        LossKernel& /*loss*/) {
        return {};
    }
    /// After the last pass the parameter gradients are assigned.
    virtual void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* /*shared*/) {}

    /// Known once it was prepared; empty where nothing is chosen.
    [[nodiscard]] virtual std::vector<KernelImplementation> implementations() const { return {}; }

protected:
    KernelTraits traits_;  ///< set by the constructor
    KernelBinding binding_;
};

/// The loss at the end of a network. begin() and run() only queue work and can be recorded;
/// finish() waits.
class LossKernel : public Interface {
public:
    virtual void begin() = 0;
    virtual void run(const LossSlice& slice) = 0;
    [[nodiscard]] virtual LossSums finish() = 0;
};
/// @param output  shape of one sample's outputs: [classes], [T, classes] with a label per position
/// (the loss of a sample is the mean over its positions), or that of the targets
[[nodiscard]] std::unique_ptr<LossKernel> make_loss(LossKind kind, const KernelContext& context,
                                                    const Shape& output);

/// to += from, `count` elements of host memory; used where a tensor has several consumers. On a GPU
/// KernelSupport::add_into does it.
void add_into(ElementType type, void* to, const void* from, std::int64_t count);
/// state += step (batch - state), `count` floats where `stream` works; the same bits on every
/// device. Queued on the stream.
void fold_into(Device& device, Stream& stream, float* state, const float* batch, std::int64_t count,
               float step);
/// What the CPU computes in where `asked` is wanted: kF32 in place of kBf16 where the processor has
/// no products of bfloat16, which is said once in the log. Errors: UsageError for those that only
/// GPUs have.
[[nodiscard]] Precision cpu_precision(Precision asked);

/// @param file  where choices are kept from run to run, one per line; empty: nowhere. A file that
/// cannot be read or written costs only the measurements: it is said once in the log.
[[nodiscard]] std::shared_ptr<TuningCache> make_tuning_cache(const std::string& file = {});

}  // namespace cohort
