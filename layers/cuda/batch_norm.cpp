// Batch normalisation, optionally + residual + ReLU, on a GPU: kernels of our own.
//
// Forward: statistics of each channel, y = act(scale x + offset + residual); x is read twice, y
// written once. Backward: sums of g and g (x - mean) with the gradients of each channel, the
// input's gradient. Each is one launch. Without a residual the ReLU's mask is recomputed from x, so
// neither y nor a mask is kept; with one it is y > 0 (the next layer keeps y anyway) and masks the
// gradient in place, which then *is* the residual's gradient. cuDNN's batch norm with a ReLU keeps
// a mask, and gives the inverse deviation instead of the variance.
#include <algorithm>

#include "layers/cuda/kernels/batch_norm_kernels.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace cuda {
namespace {

/// Per-channel values and counters of blocks in one buffer, zero at first.
class ChannelBuffer {
public:
    ChannelBuffer(Device& device, Stream& stream, std::int64_t stored)
        : buffer_(device.allocate(static_cast<std::size_t>(stored) *
                                  (sizeof(double) + kFloats * sizeof(float) + sizeof(unsigned)))) {
        stream.fill_zero(buffer_.data(), buffer_.bytes());
        values_.inverse = static_cast<double*>(buffer_.data());
        auto* floats = reinterpret_cast<float*>(values_.inverse + stored);
        for (float** place :
             {&values_.mean, &values_.scale, &values_.offset, &values_.a, &values_.b, &values_.d}) {
            *place = floats;
            floats += stored;
        }
        arrivals_ = reinterpret_cast<unsigned*>(floats);
    }
    [[nodiscard]] const BnChannelValues& values() const { return values_; }
    [[nodiscard]] unsigned* arrivals() const { return arrivals_; }

private:
    static constexpr std::size_t kFloats = 6;
    Buffer buffer_;
    BnChannelValues values_;
    unsigned* arrivals_ = nullptr;
};

class BatchNormCuda final : public Kernel {
public:
    BatchNormCuda(const BatchNormSpec& spec, const KernelContext& context)
        : spec_(spec),
          support_(support_of(context)),
          format_(context.inputs.at(0)),
          training_(context.training),
          gpu_(gpu_facts(context.device)),
          channels_(context.device, context.stream, order_of(format_).stored) {
        traits_.output = format_;
        traits_.backward_reads_output = spec.relu && spec.add;
        if (spec.add) {
            residual_ = context.inputs.at(1);
            // A residual whose pixels have other gaps is copied on the way back.
            traits_.pass_through_input = residual_ == format_ ? 1 : -1;
        }
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            const std::size_t bytes = bn_partial_bytes(problem(samples));
            memory.forward_scratch = std::max(memory.forward_scratch, bytes);
            memory.backward_scratch = std::max(memory.backward_scratch, bytes);
        }
        return memory;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const BnProblem p = problem(slice.samples);
        if (training_) {
            bn_statistics(support_.stream(), p, slice.inputs[0],
                          reinterpret_cast<float2*>(slice.scratch), binding_.batch_state[0],
                          binding_.batch_state[1]);
        } else {
            bn_inference(support_.stream(), p, binding_.state[0], binding_.state[1]);
        }
        BnAdded added;
        if (spec_.add) {
            added = {slice.inputs[1], order_of(residual_).stored};
        }
        bn_apply(support_.stream(), p, slice.inputs[0], added, spec_.relu, slice.output);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const BnProblem p = problem(slice.samples);
        const BnMask mask = !spec_.relu ? BnMask::kNone
                            : spec_.add ? BnMask::kFromOutput
                                        : BnMask::kFromInput;
        bn_reduce(support_.stream(), p, mask, slice.inputs[0], slice.output, slice.output_gradient,
                  reinterpret_cast<float2*>(slice.scratch), binding_.gradients[0],
                  binding_.gradients[1]);
        if (spec_.add && traits_.pass_through_input < 0 && slice.input_gradients[1] != nullptr) {
            copy_residual_gradient(p, slice.output_gradient, slice.input_gradients[1]);
        }
        if (slice.input_gradients[0] != nullptr) {
            bn_input_gradient(support_.stream(), p, mask, slice.inputs[0], slice.output_gradient,
                              slice.input_gradients[0]);
        }
    }

private:
    [[nodiscard]] BnProblem problem(std::int64_t samples) const {
        const std::int64_t stored = order_of(format_).stored;
        const std::int64_t rows = samples * order_of(format_).pixels;
        const bool vectors = !spec_.add || order_of(residual_).stored == stored;
        return {.rows = rows,
                .channels = format_.shape[0],
                .stored = stored,
                .type = format_.type,
                .gpu = gpu_.index,
                .multiprocessors = gpu_.multiprocessors,
                .tiles = bn_tiles(rows, stored, format_.type, gpu_.multiprocessors, vectors),
                .values = channels_.values(),
                .arrivals = channels_.arrivals(),
                .epsilon = spec_.options.epsilon,
                .weight = binding_.parameters.empty() ? nullptr : binding_.parameters[0],
                .bias = binding_.parameters.empty() ? nullptr : binding_.parameters[1]};
    }

    void copy_residual_gradient(const BnProblem& p, const float* from, float* to) const {
        const std::size_t element = element_bytes(p.type);
        const auto to_pitch = static_cast<std::size_t>(order_of(residual_).stored) * element;
        const auto from_pitch = static_cast<std::size_t>(p.stored) * element;
        const auto rows = static_cast<std::size_t>(p.rows);
        check(cudaMemsetAsync(to, 0, to_pitch * rows, support_.stream()), "cudaMemsetAsync");
        check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch,
                                static_cast<std::size_t>(p.channels) * element, rows,
                                cudaMemcpyDeviceToDevice, support_.stream()),
              "cudaMemcpy2DAsync");
    }

    BatchNormSpec spec_;
    Support& support_;
    TensorFormat format_;
    TensorFormat residual_;
    bool training_;
    const GpuFacts& gpu_;
    ChannelBuffer channels_;
};

}  // namespace
}  // namespace cuda

MadeKernel make_cuda_kernel(const BatchNormSpec& spec, const KernelContext& context) {
    return std::make_unique<cuda::BatchNormCuda>(spec, context);
}

}  // namespace cohort
