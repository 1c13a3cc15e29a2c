// LSTM by cuDNN. The parameters are copied to its weight space at the beginning of each direction,
// the gradients come back from one; what it keeps from forward to backward lies in the samples'
// saved memory.
#include <algorithm>
#include <map>

#include "cohort/core/error.hpp"
#include "core/tensor/cuda.hpp"
#include "layers/cuda/dnn/lstm_dnn.hpp"
#include "layers/cuda/kernels/weight_copies.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LstmCuda final : public Kernel {
public:
    LstmCuda(const LstmSpec& spec, const KernelContext& context)
        : shape_{.positions = context.inputs.at(0).shape[0],
                 .features = context.inputs[0].shape[1],
                 .hidden = spec.options.hidden,
                 .type = context.inputs[0].type},
          training_(context.training),
          support_(cuda::support_of(context)),
          network_(shape_, support_) {
        traits_.output = {Shape{shape_.positions, shape_.hidden}, 1, shape_.type};
        traits_.backward_reads_output = true;
        traits_.weight_bytes = network_.weight_bytes();
        if (training_) {
            plan_saved();
        }
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            const cuda::LstmBatch& batch = batch_of(samples);
            memory.forward_scratch = std::max(memory.forward_scratch, batch.scratch_bytes());
            memory.backward_scratch =
                std::max(memory.backward_scratch,
                         cuda::padded(batch.scratch_bytes()) + input_gradient_bytes(samples));
        }
        memory.forward_shared = network_.weight_bytes();
        memory.backward_shared = training_ ? cuda::padded(network_.weight_bytes()) * 2 : 0;
        return memory;
    }

    void forget(std::int64_t samples) override { batches_.erase(samples); }

    void begin_forward(std::byte* shared) override { pack(shared); }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const cuda::LstmBatch& batch = *batches_.at(slice.samples);
        cuda::dnn_check(cuda::rnn_table().forward(
                            support_.dnn_handle(), network_.get(),
                            training_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr,
                            batch.input(), slice.inputs[0], batch.output(), slice.output,
                            batch.state(), nullptr, nullptr, batch.state(), nullptr, nullptr,
                            network_.weight_bytes(), slice.shared, batch.scratch_bytes(),
                            slice.scratch, batch.saved_bytes(), saved_of(slice)),
                        "cudnnRNNForward");
    }

    /// Parameters, then their gradients, which cuDNN adds to.
    void begin_backward(std::byte* shared) override {
        pack(shared);
        cuda::check(
            cudaMemsetAsync(gradient_space(shared), 0, network_.weight_bytes(), support_.stream()),
            "cudaMemsetAsync");
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        const cuda::LstmBatch& batch = *batches_.at(slice.samples);
        void* input_gradient = slice.input_gradients[0];
        if (input_gradient == nullptr) {  // cuDNN computes it all the same
            input_gradient = slice.scratch + cuda::padded(batch.scratch_bytes());
        }
        cuda::dnn_check(
            cuda::rnn_table().backward_data(
                support_.dnn_handle(), network_.get(), nullptr, batch.output(), slice.output,
                slice.output_gradient, batch.input(), input_gradient, batch.state(), nullptr,
                nullptr, nullptr, batch.state(), nullptr, nullptr, nullptr, network_.weight_bytes(),
                slice.shared, batch.scratch_bytes(), slice.scratch, batch.saved_bytes(),
                saved_of(slice)),
            "cudnnRNNBackwardData_v8");
        cuda::dnn_check(
            cuda::rnn_table().backward_weights(
                support_.dnn_handle(), network_.get(), CUDNN_WGRAD_MODE_ADD, nullptr, batch.input(),
                slice.inputs[0], batch.state(), nullptr, batch.output(), slice.output,
                network_.weight_bytes(), gradient_space(slice.shared), batch.scratch_bytes(),
                slice.scratch, batch.saved_bytes(), saved_of(slice)),
            "cudnnRNNBackwardWeights_v8");
    }

    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        cuda::unpack_lstm_gradients(
            support_.stream(), network_.weights(), shape_.type,
            {{binding_.gradients[0], binding_.gradients[1], binding_.gradients[2]}},
            gradient_space(shared));
    }

private:
    /// cuDNN says what a batch keeps, the executor has memory by the sample. Memory per sample is
    /// taken from a batch of kUsual; smaller ones, which may need more than their share of it, have
    /// a buffer of this object.
    void plan_saved() {
        constexpr std::int64_t kUsual = 64;
        const std::size_t usual = batch_of(kUsual).saved_bytes();
        traits_.saved_bytes = (usual + kUsual - 1) / kUsual;
        small_batch_ = support_.device().allocate(std::max<std::size_t>(usual, 1));
        saved_planned_ = true;
    }

    [[nodiscard]] bool fits(const cuda::LstmBatch& batch, std::int64_t samples) const {
        return batch.saved_bytes() <= traits_.saved_bytes * static_cast<std::size_t>(samples);
    }
    [[nodiscard]] void* saved_of(const KernelSlice& slice) const {
        if (!training_) {
            return nullptr;
        }
        return fits(*batches_.at(slice.samples), slice.samples) ? slice.saved : small_batch_.data();
    }

    const cuda::LstmBatch& batch_of(std::int64_t samples) {
        std::unique_ptr<cuda::LstmBatch>& batch = batches_[samples];
        if (batch == nullptr) {
            batch = std::make_unique<cuda::LstmBatch>(shape_, samples, support_.dnn_handle(),
                                                      network_.get(), training_);
        }
        if (saved_planned_ && !fits(*batch, samples) &&
            batch->saved_bytes() > small_batch_.bytes()) {
            fail<DeviceError>({.where = "lstm",
                               .what = "cuDNN keeps more per sample in a batch of " +
                                       std::to_string(samples) + " than in a smaller one",
                               .hint = "another --batch"});
        }
        return *batch;
    }

    [[nodiscard]] std::size_t input_gradient_bytes(std::int64_t samples) const {
        return static_cast<std::size_t>(samples * shape_.positions * shape_.features) *
               element_bytes(shape_.type);
    }

    [[nodiscard]] std::byte* gradient_space(std::byte* shared) const {
        return shared + cuda::padded(network_.weight_bytes());
    }

    void pack(std::byte* space) {
        cuda::pack_lstm_weights(
            support_.stream(), network_.weights(), shape_.type, space,
            {{binding_.parameters[0], binding_.parameters[1], binding_.parameters[2]}});
    }

    cuda::LstmShape shape_;
    bool training_;
    cuda::Support& support_;
    cuda::LstmNetwork network_;
    std::map<std::int64_t, std::unique_ptr<cuda::LstmBatch>> batches_;
    Buffer small_batch_;
    bool saved_planned_ = false;
};

}  // namespace

MadeKernel make_cuda_kernel(const LstmSpec& spec, const KernelContext& context) {
    return std::make_unique<LstmCuda>(spec, context);
}

}  // namespace cohort
