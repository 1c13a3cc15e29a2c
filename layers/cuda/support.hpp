#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cohort/layers/kernel.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda_library.hpp"
#include "layers/cuda/rules/layouts.hpp"

namespace cohort::cuda {

/// Rounded up to what parts of device memory begin at multiples of.
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) noexcept {
    constexpr std::size_t kAlignment = 256;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// A tensor's order: [T,F] has T pixels of F channels, [F] one.
[[nodiscard]] inline ImageOrder order_of(const TensorFormat& format) {
    const Shape& shape = format.shape;
    switch (shape.rank()) {
        case 1: return {shape[0], shape[0], 1};
        case 2: return {shape[1], shape[1], shape[0]};
        default: return {shape[0], std::max(format.block, shape[0]), shape[1] * shape[2]};
    }
}

struct Choices;
class DnnTarget;
class WeightCopies;

/// Data shared by the kernels of a replica.
class Support final : public KernelSupport {
public:
    Support(Device& device, Stream& stream, Precision precision, bool deterministic);
    ~Support() override;

    [[nodiscard]] TensorFormat input_format(const Shape& input) const override;
    void prepare() override;
    [[nodiscard]] StepValues* step_values() noexcept override {
        return static_cast<StepValues*>(step_values_.data());
    }
    void refresh_weights() override;
    void load_input(const TensorFormat& format, const float* from, void* to,
                    std::int64_t samples) override;
    void load_stored(const TensorFormat& format, const StoredSamples& from, void* to,
                     std::int64_t samples) override;
    void read_output(const TensorFormat& format, const void* from, float* to,
                     std::int64_t samples) override;
    void add_into(ElementType type, void* to, const void* from, std::int64_t count) override;
    void unscale(float* gradients, std::int64_t count) override;
    [[nodiscard]] std::size_t bytes() const noexcept override;

    [[nodiscard]] Device& device() noexcept { return device_; }
    [[nodiscard]] Stream& queue() noexcept { return stream_; }
    [[nodiscard]] cudaStream_t stream() noexcept { return native_; }
    [[nodiscard]] Precision precision() const noexcept { return precision_; }
    [[nodiscard]] bool deterministic() const noexcept { return deterministic_; }
    /// Bound to stream(); made at first use. Errors: DeviceError.
    [[nodiscard]] cudnnHandle_t dnn_handle();
    /// The same GPU as what plans are made for (see dnn_graph.hpp).
    [[nodiscard]] const DnnTarget& dnn_target();
    /// Engines and algorithms chosen so far, for all kernels (see choices.hpp).
    [[nodiscard]] Choices& choices() noexcept { return *choices_; }

    /// Wants a copy of the parameter in that form, renewed by refresh_weights(). Called from
    /// Kernel::bind; the same parameter in the same form is copied once for all that want it.
    /// @return a number for weight()
    int want_weight(const float* parameter, const WeightForm& form);
    /// Where the copy lies, or the parameter itself where its form is as_is(); after prepare().
    [[nodiscard]] const void* weight(int number) const noexcept;

private:
    Device& device_;
    Stream& stream_;
    cudaStream_t native_;
    Precision precision_;
    bool deterministic_;
    cudnnHandle_t handle_ = nullptr;
    std::unique_ptr<DnnTarget> target_;
    std::unique_ptr<Choices> choices_;
    Buffer step_values_;
    std::unique_ptr<WeightCopies> copies_;
};

/// The support of a kernel's context.
[[nodiscard]] inline Support& support_of(const KernelContext& context) {
    return static_cast<Support&>(*context.support);
}

}  // namespace cohort::cuda
